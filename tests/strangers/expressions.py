"""Random expressions of 1 to 200 elementwise ops, fused as the compiler likes: each must compile,
and give the CPU's values.

The ops are those of the records in the elementwise families, on tensors of every dtype that a
record takes. An expression is drawn while it runs on the CPU: a call that the CPU refuses, or whose
result is not finite or large, is drawn again.

Rounding errors grow along an expression, and what is decided by a comparison flips. How far a
result may be off is therefore measured: the expression runs on the CPU some more times, and each
call's result is changed at random within the tolerance of its op's record. An element may differ
from the CPU's as much as these runs differ from each other.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

if __name__ == "__main__":
    # the package is `strangers`; its files are not modules of their own
    sys.path[0] = str(Path(__file__).parents[1])
    os.environ["FTM_STRICT"] = "1"  # a program that does not compile is an error

import torch

from ftm_backend.frontend.ops import RECORDS, native_ops
from ops.capture import DTYPES
from ops.samples import for_op
from strangers import campaign

FAMILIES = (
    "unary", "binary", "ternary", "shift", "clamp", "where", "copy", "nan_to_num", "activation", "log_sigmoid", "logit_backward",
    "polygamma", "zeta", "lcm", "round_decimals", "chebyshev",
)  # fmt: skip
NOT_OF_ANY_VALUES = {"aten::log_sigmoid_backward"}
"""Ops with an operand that another op must have made."""
NAMES = sorted(
    name
    for name, record in RECORDS.items()
    if record.family in FAMILIES and name.startswith("aten::")
)
NAMES = [name for name in NAMES if name not in NOT_OF_ANY_VALUES]
TOKENS = native_ops()
TYPES = {
    dtype: token
    for dtype, token in DTYPES.items()
    if any(token in tokens for tokens in TOKENS.values())
}
SHAPES = ((6, 5), (6, 1), (5,), (), (3, 6, 5), (2, 70), (70,), (2, 1))
LONGEST = 200
LARGEST = 1e4  # so that the next op has something to compute
PERTURBED_RUNS = 32
SLACK = 4.0  # how much farther off than the perturbed runs a result may be, since these are few
REFUSALS = (RuntimeError, NotImplementedError, IndexError, TypeError, ValueError, ZeroDivisionError)


@dataclass(frozen=True)
class Call:
    """One call: ``operands`` are the places of tensor arguments, by name, among the values so far;
    ``others`` are all other arguments."""

    name: str
    operands: dict[str, int]
    others: dict[str, Any]

    def run(self, values: Sequence[torch.Tensor]) -> torch.Tensor:
        """The (first) result."""
        result = for_op(self.name)(
            **{name: values[place] for name, place in self.operands.items()}, **self.others
        )
        return result if isinstance(result, torch.Tensor) else result[0]


@dataclass
class Expression:
    """Leaves, the calls on them, and the values that no call reads."""

    leaves: list[torch.Tensor]
    calls: list[Call]
    roots: list[int]

    def run(
        self,
        leaves: Sequence[torch.Tensor],
        change: Callable[[Call, torch.Tensor], torch.Tensor] | None = None,
    ) -> list[torch.Tensor]:
        """The roots; ``change`` gets each result and gives what the next calls read."""
        values = list(leaves)
        for call in self.calls:
            result = call.run(values)
            values.append(change(call, result) if change else result)
        return [values[place] for place in self.roots]


def draw(random: Random, names: Sequence[str] = NAMES) -> Expression:
    """A random expression of 1 to `LONGEST` calls of ``names``."""
    generator = torch.Generator().manual_seed(random.getrandbits(32))
    shapes = random.choice((SHAPES[:4], SHAPES[:5], SHAPES[5:]))
    dtypes = random.sample(list(TYPES), random.randint(1, 3))
    leaves = [
        _leaf(random.choice(shapes), random.choice(dtypes), generator)
        for _ in range(random.randint(2, 6))
    ]
    values, calls, unread = list(leaves), [], set(range(len(leaves)))
    wanted = random.choice(
        (random.randint(1, 12), random.randint(13, 60), random.randint(61, LONGEST))
    )
    for _ in range(8 * wanted):
        if len(calls) == wanted:
            break
        drawn = _call(random, random.choice(names), values, unread)
        if drawn is None:
            continue
        call, result = drawn
        calls.append(call)
        unread -= set(call.operands.values())
        unread.add(len(values))
        values.append(result)
    return Expression(leaves, calls, sorted(unread))


def _leaf(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Small numbers, more positive than negative ones, since more functions know these."""
    numbers = torch.rand(shape, generator=generator, dtype=torch.float64) * 5 - 1.5
    if dtype == torch.bool:
        return numbers > 1
    return (numbers.abs() if dtype == torch.uint8 else numbers).to(dtype)


def _call(
    random: Random, name: str, values: list[torch.Tensor], unread: set[int]
) -> tuple[Call, torch.Tensor] | None:
    """A call of ``name`` and its result; None where the CPU or the record refuses it."""
    operands: dict[str, int] = {}
    others: dict[str, Any] = {}
    for argument in for_op(name)._schema.arguments:
        kind, optional = str(argument.type), argument.has_default_value()
        if kind in ("Tensor", "Optional[Tensor]"):
            fitting = [
                place for place in range(len(values)) if DTYPES[values[place].dtype] in TOKENS[name]
            ]
            if operands and name.endswith("_backward"):  # as autograd calls it
                first = values[next(iter(operands.values()))]
                fitting = [
                    place
                    for place in fitting
                    if (values[place].dtype, values[place].shape) == (first.dtype, first.shape)
                ]
            places = (
                [place for place in fitting if place in unread] if random.random() < 0.7 else []
            )
            places = places or fitting
            if not places:
                return None
            operands[argument.name] = random.choice(places)
        elif argument.name == "dtype":
            others["dtype"] = random.choice(list(TYPES))
        elif not optional or (
            random.random() < 0.3
            and argument.name not in ("device", "layout", "memory_format", "pin_memory")
        ):
            others[argument.name] = _number(random, kind, argument.name)
    call = Call(name, operands, others)
    try:
        with warnings.catch_warnings(action="ignore"):
            result = call.run(values)
    except REFUSALS:
        return None
    return (
        (call, result)
        if _is_tame(result) and all(_is_tame(values[place]) for place in operands.values())
        else None
    )


def _number(random: Random, kind: str, name: str) -> Any:
    if "bool" in kind:
        return random.random() < 0.5
    if "str" in kind:
        return random.choice(("floor", "trunc") if name == "rounding_mode" else ("none", "tanh"))
    if "int" in kind:
        return random.randint(0, 3)
    return random.choice(
        (random.randint(1, 5), round(random.uniform(0.1, 3), 2), random.choice((-1, 0, 0.5)))
    )


def _is_tame(value: torch.Tensor) -> bool:
    """Whether all elements are finite and small, and of a dtype that the compiler knows."""
    if value.dtype not in TYPES:
        return False
    numbers = torch.view_as_real(value) if value.is_complex() else value
    return bool((numbers.double().abs() <= LARGEST).all())


def _rounds(value: torch.Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


def perturbed(expression: Expression, run: int) -> list[torch.Tensor]:
    """The roots, with each call's result changed within the tolerance of its op: upwards in the
    first run, downwards in the second."""
    generator = torch.Generator().manual_seed(run)
    low, high = ((1, 1), (-1, -1))[run] if run < 2 else (-1, 1)

    def noise(value: torch.Tensor) -> torch.Tensor:
        return torch.randint(low, high + 1, value.shape, generator=generator, dtype=torch.float64)

    def change(call: Call, value: torch.Tensor) -> torch.Tensor:
        if not _rounds(value):
            return value
        if value.is_complex():
            return torch.complex(*(change(call, part) for part in (value.real, value.imag)))
        relative, absolute = RECORDS[call.name].tolerance.get(DTYPES[value.dtype], (0.0, 0.0))
        relative = max(relative, 2 * torch.finfo(value.dtype).eps)
        return (value.double() + (absolute + relative * value.double().abs()) * noise(value)).to(
            value.dtype
        )

    return expression.run(expression.leaves, change)


def compare(got: torch.Tensor, want: torch.Tensor, others: Sequence[torch.Tensor]) -> str | None:
    """What is wrong with a root, given the CPU's and those of perturbed runs."""
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype} {tuple(got.shape)} instead of {want.dtype} {tuple(want.shape)}"
    wide = torch.complex128 if want.is_complex() else torch.float64
    right, found = want.to(wide), got.to(wide)
    spread = torch.stack([(other.to(wide) - right).abs() for other in others]).amax(0)
    unsettled = ~spread.isfinite()
    allowed = SLACK * spread + (1e-7 * right.abs() if _rounds(want) else 0)
    wrong = ~((found - right).abs() <= allowed) & ~unsettled
    if not wrong.any():
        return None
    place = tuple(wrong.nonzero()[0].tolist())
    return f"{int(wrong.sum())} of {wrong.numel()} elements differ, at {place}: {found[place]}, not {right[place]} +- {allowed[place]}"


def check(random: Random) -> str | None:
    """One random expression on the device."""
    expression = draw(random)
    with warnings.catch_warnings(action="ignore"):
        want = expression.run(expression.leaves)
        try:
            got = [
                value.cpu()
                for value in expression.run([leaf.to("ftm") for leaf in expression.leaves])
            ]
        except NotImplementedError:
            return None  # an op that calls another one, which has no record for the dtype
        others: list[list[torch.Tensor]] = []
        for run in range(PERTURBED_RUNS):  # mostly two are enough
            try:
                others.append(perturbed(expression, run))
            except REFUSALS:
                return None  # it divides integers by what may be zero
            if run and _fault(expression, got, want, others) is None:
                return None
    return _fault(expression, got, want, others)


def _fault(
    expression: Expression,
    got: Sequence[torch.Tensor],
    want: Sequence[torch.Tensor],
    others: Sequence[Sequence[torch.Tensor]],
) -> str | None:
    """What is wrong with the roots, given those of perturbed runs."""
    for place, value, right, *disturbed in zip(expression.roots, got, want, *others, strict=True):
        fault = compare(value, right, disturbed)
        if fault is not None:
            return f"{expression.calls}\nvalue {place} of {len(expression.calls)} calls: {fault}"
    return None


if __name__ == "__main__":
    campaign.main("expressions", check, count=1000)
