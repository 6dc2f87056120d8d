"""Expressions that fusion joins: none is too large to compile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest
import torch
from torch import Tensor

from ftm_backend.frontend.ops import RECORDS
from ftm_lazy import _C
from ftm_lazy.device import registration
from strangers import expressions

INTEGERS = [torch.arange(1, 17) * factor % 97 for factor in (5, 12, 30, 42)]
MATRIX = torch.linspace(0.1, 2, 16, dtype=torch.float64).reshape(4, 4)


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    """A program that does not compile is an error."""
    registration.initialize()
    _C._set_strict(True)
    yield
    _C._set_strict(False)


def divisors(count: int, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    for number in range(count):
        a = torch.gcd(a + number, b) + torch.gcd(c, d + number)
    return a


def bessel(count: int, x: Tensor) -> Tensor:
    for _ in range(count):
        x = torch.special.bessel_y0(x.abs() + 2)  # where it does not make errors larger
    return x


LARGE: dict[str, Callable[[Callable[[Tensor], Tensor]], Tensor]] = {
    "two greatest common divisors": lambda put: divisors(1, *map(put, INTEGERS)),
    "forty greatest common divisors": lambda put: divisors(20, *map(put, INTEGERS)),
    "powers of integers": lambda put: (
        put(INTEGERS[0]) ** put(INTEGERS[1])
        + put(INTEGERS[2]) ** put(INTEGERS[3])
        + put(INTEGERS[3]) ** 3
    ),
    "eight bessel functions": lambda put: bessel(8, put(MATRIX)),
    "behind a product": lambda put: bessel(60, put(MATRIX) @ put(MATRIX)),
    "an operand of what follows a product": lambda put: (
        put(MATRIX) @ put(MATRIX) + bessel(60, put(MATRIX))
    ),
    "before a sum": lambda put: bessel(60, put(MATRIX)).sum(0),
    "many calls on an input": lambda put: sum(
        (put(MATRIX).sin() for _ in range(3)), put(MATRIX) @ put(MATRIX)
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_expression(name: str) -> None:
    want = LARGE[name](lambda x: x)
    torch.testing.assert_close(LARGE[name](lambda x: x.to("ftm")).cpu(), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_a_random_expression(seed: int) -> None:
    assert expressions.check(Random(seed)) is None


def test_every_elementwise_family_is_drawn() -> None:
    assert {RECORDS[name].family for name in expressions.NAMES} == set(expressions.FAMILIES)
