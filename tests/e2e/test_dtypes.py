"""Elementwise ops and reductions over all dtypes at the values where implementations differ: as on
the CPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
DTYPES = (*FLOATS, *INTEGERS, torch.bool)

UNARY = """abs neg sign square floor ceil trunc round frac bitwise_not logical_not isnan isinf isposinf isneginf isfinite signbit
exp expm1 log log2 log1p sqrt rsqrt reciprocal sigmoid tanh sin tan asin atan cosh asinh erf erfc angle nan_to_num sinc lgamma
erfinv deg2rad""".split()
BINARY = """add sub mul div floor_divide remainder fmod maximum fmin eq ne lt ge logical_and logical_xor bitwise_and bitwise_or
bitwise_left_shift bitwise_right_shift pow float_power atan2 copysign hypot heaviside xlogy logaddexp nextafter gcd isclose""".split()
MIXED = "add mul div lt pow remainder copysign bitwise_xor maximum atan2".split()
REDUCTIONS = "sum prod mean amax amin argmax argmin all any var std nansum count_nonzero aminmax logsumexp cumsum".split()
WITH_NUMBERS = "add sub mul div remainder pow eq lt floor_divide clamp_min clamp_max xlogy".split()
CPU_COMPUTES_IN_HALVES = ("logsumexp",)


def values(dtype: torch.dtype) -> Tensor:
    """Numbers at which implementations differ."""
    if dtype == torch.bool:
        return torch.tensor([True, False])
    if dtype.is_floating_point:
        numbers = [
            float("nan"),
            float("inf"),
            -float("inf"),
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            2.5,
            -2.5,
            3.0,
            -7.0,
            100.0,
            1e-4,
            65504.0,
            1e30,
        ]
        return torch.tensor(numbers, dtype=torch.float64).to(dtype)
    bounds = torch.iinfo(dtype)
    return torch.tensor(
        [0, 1, 2, 3, -1, -2, -7, 5, bounds.max, bounds.min, bounds.max - 1, 100, 37]
    ).to(dtype)


def divisors(name: str, y: Tensor) -> Tensor:
    """``y`` without what kills the process or raises on the CPU: integers over 0, the smallest
    integer over -1."""
    if y.dtype.is_floating_point or y.dtype == torch.bool:
        return (
            y[y] if y.dtype == torch.bool and name in ("floor_divide", "remainder", "fmod") else y
        )
    if name in ("floor_divide", "remainder", "fmod", "gcd"):
        return y[(y != 0) & (y.long() != -1)]
    return y[y >= 0] if name == "pow" else y


def both(function: Callable[..., Tensor], *operands: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """(result on ftm, result on the CPU), nothing where the CPU has no kernel; ftm must raise there
    too."""
    try:
        want = function(*operands)
    except (RuntimeError, NotImplementedError):
        with pytest.raises((RuntimeError, NotImplementedError)):
            function(*(x.to("ftm") for x in operands))
        return
    got = function(*(x.to("ftm") for x in operands))
    results = (got, want) if isinstance(want, (tuple, list)) else ((got,), (want,))
    yield from zip(*results, strict=True)


def check(cases: Iterator[tuple[str, Tensor, Tensor]]) -> None:
    """Compares; all calls are recorded before the first is read, so that they compile as one
    program."""
    recorded = list(cases)
    for what, got, want in recorded:
        assert got.dtype == want.dtype, what
        torch.testing.assert_close(
            got.cpu(), want, equal_nan=True, msg=lambda text, what=what: f"{what}\n{text}"
        )


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    function = getattr(torch, name)
    check((str(d), *pair) for d in DTYPES for pair in both(function, values(d)))


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    function = getattr(torch, name)
    check(
        (str(d), *pair)
        for d in DTYPES
        for pair in both(function, values(d).unsqueeze(1), divisors(name, values(d)))
    )


@pytest.mark.parametrize("name", MIXED)
def test_promotion(name: str) -> None:
    function = getattr(torch, name)
    check(
        (f"{a} with {b}", *pair)
        for a, b in itertools.permutations(DTYPES, 2)
        for pair in both(function, values(a).unsqueeze(1), divisors(name, values(b)))
    )


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_python_numbers(name: str) -> None:
    function = getattr(torch, name)

    def calls() -> Iterator[tuple[str, Tensor, Tensor]]:
        for dtype, number in itertools.product(DTYPES, (2, -3, 2.5, 300)):
            if (
                number == 300
                and name.startswith(("clamp", "pow"))
                and dtype in (torch.int8, torch.uint8)
            ):
                continue  # refused on the CPU, where the number is converted before anything else
            for pair in both(lambda x, number=number: function(x, number), values(dtype)):
                yield f"{dtype} with {number}", *pair

    check(calls())


BESIDE_HALVES: dict[str, Callable[[Tensor, float], Tensor]] = {
    **{name: getattr(torch, name) for name in "eq ne lt le gt ge isin remainder fmod".split()},
    "remainder of the number": lambda x, number: torch.remainder(number, x),
    "floor division of the number": lambda x, number: number // x,
    "hardshrink": F.hardshrink,
    "gradient of hardshrink": lambda x, number: torch.ops.aten.hardshrink_backward(x, x, number),
    "gradient of softshrink": lambda x, number: torch.ops.aten.softshrink_backward(x, x, number),
}


@pytest.mark.parametrize("name", BESIDE_HALVES)
def test_numbers_beside_halves(name: str) -> None:
    """A number counts as the nearest half, so that ``bfloat16(0.1) == 0.1``."""
    check(
        (f"{dtype} with {number}", *pair)
        for dtype, number in itertools.product(
            (torch.bfloat16, torch.float16), (0.1, 0.2, 0.7, 3.3)
        )
        for pair in both(
            lambda x, number=number: BESIDE_HALVES[name](x, number),
            torch.tensor([number, 0.5], dtype=dtype),
        )
    )


BESIDE_NUMBERS: dict[str, Callable[[Tensor], Tensor]] = {
    "angle": torch.angle,
    "eq": lambda x: x == 16777216.5,
    "ne": lambda x: x != 16777216.5,
    "lt": lambda x: x < 16777216.5,
    "ge, number first": lambda x: 2049.5 <= x,
    "eq_": lambda x: x.clone().eq_(16777216.5),
    "out=": lambda x: torch.gt(x, 16777216.5, out=torch.empty_like(x, dtype=torch.bool)),
    "isin": lambda x: torch.isin(x, 16777216.5),
    "isin, number first": lambda x: torch.isin(16777216.5, x),
    "searchsorted": lambda x: torch.searchsorted(x, 16777216.5),
    "bucketize": lambda x: torch.bucketize(16777216.5, x),
    "ldexp": lambda x: torch.ldexp(x, x % 7),
    "masked_fill": lambda x: x.masked_fill(x == 0.5, 2.5),
}
"""Calls whose arguments do not have the default dtype; eager computes some of them in it."""


@pytest.mark.parametrize("default", [torch.float64, torch.float16])
@pytest.mark.parametrize("name", BESIDE_NUMBERS)
def test_integers_beside_a_number(name: str, default: torch.dtype) -> None:
    torch.set_default_dtype(default)
    try:
        for dtype in (torch.int64, torch.int32, torch.uint8, torch.bool):
            x = torch.tensor([-1, 0, 2, 2049, 2050, 2**24, 2**24 + 1]).to(dtype)
            for got, want in both(BESIDE_NUMBERS[name], x):
                assert got.dtype == want.dtype
                assert torch.equal(got.cpu(), want), (got, want)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name: str) -> None:
    def function(x: Tensor) -> Tensor:
        return getattr(torch, name)(x, dim=0)

    def calls() -> Iterator[tuple[str, Tensor, Tensor]]:
        for dtype in DTYPES:
            if name in CPU_COMPUTES_IN_HALVES and dtype in (torch.bfloat16, torch.float16):
                continue
            x = values(dtype)
            if name in ("std", "var") and dtype.is_floating_point:
                # squares beyond float32: the CPU adds them in float64
                x = x[~((x.abs() > 1e15) & x.isfinite())]
            for operand in (x, torch.stack([x, x.flip(0)]), x[0], x[-2:]):
                for pair in both(function, operand):
                    yield f"{dtype} {tuple(operand.shape)}", *pair

    check(calls())


@pytest.mark.parametrize("scale", [1.0, 1e-25, 1e19, 1e30])
def test_deviations_whose_squares_are_no_float32(scale: float) -> None:
    x = torch.tensor([[1.0, 2.0, 3.5, -4.0], [0.25, -7.0, 0.5, 6.0]]) * scale
    expected = x.double().std(1).float()
    assert (expected > 0).all() and expected.isfinite().all()
    for run in (torch.std, lambda x, dim: torch.std_mean(x, dim)[0]):
        torch.testing.assert_close(run(x.to("ftm"), 1).cpu(), expected, rtol=1e-6, atol=0)
        torch.testing.assert_close(run(x, 1), expected, rtol=1e-6, atol=0)
    gradients = []
    for device in ("cpu", "ftm"):
        y = x.to(device, copy=True).requires_grad_()
        y.std(1).sum().backward()
        gradients.append(y.grad.cpu())
    torch.testing.assert_close(gradients[1], gradients[0])
