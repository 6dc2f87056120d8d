"""When two results are the same.

A tensor of ftm is compared with the CPU's as `torch.testing.assert_close` does, with the tolerances
that PyTorch's tests use: the defaults of the dtype, or what the entry's own overrides widen them
to. (Its comparison of devices, `test_compare_cpu`, takes 1e-3 throughout; nothing here needs that.)
What is not within them is right only if it is about as near to the same computation in float64 as
the CPU's result is, the criterion of PyTorch's `test_python_ref`; such results are counted as
"precise".

A result that is random on the CPU (another seed gives another one) is compared as a
distribution; one that is `UNDETERMINED` only by its shape and dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch.testing._comparison import default_tolerances
from torch.testing._internal.common_device_type import precisionOverride, toleranceOverride

__all__ = ["UNDETERMINED", "Closeness", "Mismatch", "Tolerance", "compare", "override", "slack"]

UNDETERMINED = dict.fromkeys(
    ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"),
    "its values are whatever memory held",
)
"""Entries whose result has a shape and a dtype, but no values, and why."""

SLACK = 2.0
"""How much farther than the CPU's result one may be from the precise result: of two equally good
orders of summation each is the better one in half of the cases, so that 1 would refuse half of all
reordered sums."""

SLACKS = {
    "nn.functional.multi_head_attention_forward": (4.0, "its logits reach hundreds; the softmax turns their last "
                                                   "bits into 1e-5 of weights that are 1, on the CPU too"),
    "linalg.householder_product": (8.0, "its gradient divides differences of nearly equal products: the CPU itself "
                                   "keeps 5 of 7 digits, and which ones are lost depends on the order of the sums"),
    "_segment_reduce": (8.0, "the CPU rounds a product to half precision at each step, ftm once, and the gradient "
                        "divides by it"),
    "nn.functional.normalize": (8.0, "over a dimension of one element its gradient is 0, and what there is instead is the "
                                "rounding of two products that cancel"),
    "RMSprop": (8.0, "centered, it divides by the root of a difference; in 20 steps the CPU itself moves 6e-5 away from "
                "float64, of a first difference of one unit in the last place"),
}  # fmt: skip
"""Entries with more than `SLACK`, and why."""

RISK = 1e-9
"""The probability with which equal distributions are taken for different ones, for each
comparison."""

HALVES = {
    "nn.functional.linear_cross_entropy": (0.03125, "its logits, of size 8, are rounded to half precision, in bfloat16 by "
                                           "up to 0.03125; a loss near 0 is the difference of two of them"),
}  # fmt: skip
"""Entries with an absolute tolerance of their own in bfloat16 and float16, and why; names are
beginnings."""

FEATURES = {
    "nn.functional.dropout1d": 2, "nn.functional.dropout2d": 2, "nn.functional.dropout3d": 2, "nn.functional.feature_alpha_dropout": 2,
}  # fmt: skip
"""Entries where one draw decides all values in this many trailing dimensions: the comparison counts
draws, not values."""

_TESTS = (
    "test_compare_cpu",
    "test_noncontiguous_samples",
    "test_variant_consistency_eager",
    "test_out",
)


class Mismatch(AssertionError):
    """A result of ftm differs from the CPU's."""


class Closeness(Enum):
    """How close a result is that counts as right."""

    CLOSE = "close"
    PRECISE = "precise"
    RANDOM = "random"


@dataclass(frozen=True)
class Tolerance:
    """A relative and an absolute tolerance, how much farther than the CPU's result one may be from
    the precise, and the number of dimensions whose elements have a draw of their own where results
    are random (None: all)."""

    rtol: float = 0.0
    atol: float = 0.0
    slack: float = SLACK
    drawn: int | None = None

    def __or__(self, other: Tolerance) -> Tolerance:
        drawn = self.drawn if other.drawn is None else other.drawn
        return Tolerance(
            max(self.rtol, other.rtol),
            max(self.atol, other.atol),
            max(self.slack, other.slack),
            drawn,
        )


def slack(name: str) -> Tolerance:
    """The slack of the entry of this name and what it draws, and no more tolerance than that."""
    return Tolerance(slack=SLACKS[name][0] if name in SLACKS else SLACK, drawn=FEATURES.get(name))


def override(entry: Any, dtype: torch.dtype) -> Tolerance:
    """What the entry's `precisionOverride` and `toleranceOverride` decorators allow for `dtype` on
    an accelerator."""
    found = slack(entry.name)
    for test in _TESTS:
        for device in ("cpu", "cuda"):
            for decorator in entry.get_decorators("TestCommon", test, device, dtype, {}):
                if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                    found |= Tolerance(decorator.d[dtype].rtol, decorator.d[dtype].atol)
                if isinstance(decorator, precisionOverride) and dtype in decorator.d:
                    found |= Tolerance(atol=decorator.d[dtype])
    if dtype in (torch.bfloat16, torch.float16):
        for name, (atol, _) in HALVES.items():
            found |= Tolerance(atol=atol) if entry.name.startswith(name) else Tolerance()
    return found


def compare(
    expected: Any,
    actual: Any,
    tolerance: Tolerance,
    *,
    random: Callable[[], bool] = lambda: False,
    values: bool = True,
    precise: Callable[[], Any] | None = None,
) -> Closeness:
    """Says how close `actual` is to `expected`, or raises Mismatch.

    Args:
        expected: what the CPU gave, a tensor or any other object.
        actual: what ftm gave, tensors copied to the CPU.
        tolerance: what the entry's overrides allow.
        random: whether values that differ may still be drawn from the same distribution.
        values: whether the values are determined.
        precise: makes the same result in float64.
    """
    if not isinstance(expected, torch.Tensor) or not isinstance(actual, torch.Tensor):
        return _compare_objects(expected, actual, tolerance, random)
    for what in ("dtype", "shape", "layout", "requires_grad"):
        if getattr(expected, what) != getattr(actual, what):
            raise Mismatch(f"{what} {getattr(actual, what)} instead of {getattr(expected, what)}")
    if not values:
        return Closeness.CLOSE
    expected, actual = expected.detach(), actual.detach()
    rtol, atol = default_tolerances(expected)
    allowed = Tolerance(rtol, atol) | tolerance
    try:
        _assert_close(expected, actual, allowed)
        return Closeness.CLOSE
    except AssertionError as error:
        failed = Mismatch(str(error))
    if random():
        _compare_samples(expected, actual, math.prod(expected.shape[: tolerance.drawn]))
        return Closeness.RANDOM
    if (
        not (expected.is_floating_point() or expected.is_complex())
        or expected.layout != torch.strided
    ):
        raise failed
    if precise is not None and _as_precise(expected, actual, precise(), tolerance.slack):
        return Closeness.PRECISE
    raise failed


def _assert_close(expected: torch.Tensor, actual: torch.Tensor, allowed: Tolerance) -> None:
    torch.testing.assert_close(
        actual, expected, rtol=allowed.rtol, atol=allowed.atol, equal_nan=True
    )


def _compare_objects(
    expected: Any, actual: Any, tolerance: Tolerance, random: Callable[[], bool]
) -> Closeness:
    if type(expected) is not type(actual):
        raise Mismatch(
            f"{type(actual).__name__} {actual!r} instead of {type(expected).__name__} {expected!r}"
        )
    if isinstance(expected, (float, complex)):
        return compare(torch.tensor(expected), torch.tensor(actual), tolerance, random=random)
    if expected != actual and not random():
        raise Mismatch(f"{actual!r} instead of {expected!r}")
    return Closeness.CLOSE


def _as_precise(expected: torch.Tensor, actual: torch.Tensor, precise: Any, slack: float) -> bool:
    """Whether `actual` is no farther from `precise` than `expected` is, up to `slack`."""
    if not isinstance(precise, torch.Tensor) or precise.shape != expected.shape:
        return False
    precise = precise.detach()
    # in both: the narrow dtype has no such number
    overflows = (expected == actual) & ~expected.isfinite()
    ours, theirs = (_distance(result, precise, overflows) for result in (actual, expected))
    return math.isfinite(ours) and ours <= slack * theirs


def _distance(result: torch.Tensor, precise: torch.Tensor, ignored: torch.Tensor) -> float:
    wide = result.to(precise.dtype)
    same = (wide == precise) | (wide.isnan() & precise.isnan()) | ignored
    return torch.where(same, 0, (wide - precise).abs()).sum().item()


def _compare_samples(expected: torch.Tensor, actual: torch.Tensor, draws: int) -> None:
    """Raises Mismatch if the values, of so many draws, are hardly drawn from one distribution
    (Kolmogorov and Smirnov's test)."""
    one, two = (_flat(tensor).sort().values for tensor in (expected, actual))
    if one.isnan().sum() != two.isnan().sum():
        raise Mismatch(f"{two.isnan().sum()} random values are NaN instead of {one.isnan().sum()}")
    one, two = one[~one.isnan()], two[~two.isnan()]
    if one.numel() == 0:
        return
    points = torch.cat([one, two])
    gap = (
        torch.searchsorted(one, points, right=True) / one.numel()
        - torch.searchsorted(two, points, right=True) / two.numel()
    ).abs()
    sizes = [min(sample.numel(), draws) for sample in (one, two)]
    bound = math.sqrt(-math.log(RISK / 2) * sum(sizes) / (2 * math.prod(sizes)))
    if gap.max() > bound:
        raise Mismatch(
            f"{one.numel()} random values are distributed otherwise: "
            f"mean {two.mean():.4g} instead of {one.mean():.4g}, deviation {two.std():.4g} instead of {one.std():.4g}"
        )


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return (
        (torch.view_as_real(tensor) if tensor.is_complex() else tensor).flatten().to(torch.float64)
    )
