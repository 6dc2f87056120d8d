"""Run the cases of one check on the CPU and on ftm, and report differences.

ftm is lazy: a batch of cases is recorded as one trace, compiled and run once, and read at the end.
That is fast, and it tests long traces like a user's. If a batch fails, its cases run again one by
one, so that the report names the case.
"""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch

from ftm_lazy import metrics
from opdb.compare import Closeness, Mismatch, Tolerance, compare
from opdb.place import CPU, FTM, PRECISE, Place

__all__ = ["BATCH", "Case", "Refused", "Verdict", "run_check"]

BATCH = 40
"""Cases of one trace: larger ones compile out of proportion."""

ELEMENTS = 2_000_000
"""Elements of all results of one trace, after which it is read early."""

_SEED = 2011
_SEEDS = 16  # that a random result is tried with: a coarse one may be the same for some of them

Leaf = tuple[str, Any]


class Refused(Exception):
    """The case does not exist on the CPU or on ftm, so there is nothing to compare.

    The message gives the reason.
    """


@dataclass(frozen=True)
class Case:
    """One thing to compare: `run` does it at a place and returns named results."""

    label: str
    run: Callable[[Place], list[Leaf]]
    may_raise: bool = False
    """The CPU's exception is the expected result, not a reason to leave the case out."""


@dataclass
class Verdict:
    """What a check found."""

    cases: int = 0
    refused: int = 0
    errors: list[str] = field(default_factory=list)
    """What the CPU raised where it should have given a result."""
    closeness: Counter[str] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)
    compile_failures: int = 0
    uncompiled: list[str] = field(default_factory=list)
    """Why cases did not compile."""
    wrong: list[str] = field(default_factory=list)

    @property
    def native(self) -> bool:
        """All of it was compiled, and right."""
        return bool(self.cases) and not (self.wrong or self.fallbacks or self.compile_failures)


@dataclass
class _Run:
    """A case that was recorded: what the CPU gave and what ftm will give."""

    case: Case
    expected: list[Leaf] | Exception
    actual: list[Leaf] | Exception


def run_check(
    cases: Iterable[Case],
    tolerance: Tolerance,
    *,
    values: bool = True,
    tell: Callable[[str], None] = lambda at: None,
) -> Verdict:
    """Runs all `cases` and returns what was found.

    Args:
        cases: what to run.
        tolerance: what the entry's overrides allow.
        values: whether the values of the results are determined.
        tell: Called with the current activity, for the report of a crash or a hang.
    """
    verdict = Verdict()
    remaining = enumerate(cases)
    while batch := _record(remaining, verdict, tell):
        tell(f"cases {batch[0].case.label} to {batch[-1].case.label} in one trace")
        before = metrics.counters()["compile_failures"]
        faults = _judge(batch, tolerance, values, verdict)
        failed = metrics.counters()["compile_failures"] - before
        if faults or failed:
            alone = list(_one_by_one(batch, tolerance, values, tell, verdict if failed else None))
            verdict.wrong += alone or [
                f"only together with other cases: {fault}" for fault in faults
            ]
            if failed and not verdict.uncompiled:
                verdict.compile_failures += failed
                verdict.uncompiled.append(
                    f"only together: {batch[0].case.label} to {batch[-1].case.label}"
                )
    if verdict.errors and not verdict.cases:
        verdict.wrong.append(f"the CPU refuses every case: {verdict.errors[0]}")
    return verdict


def _record(
    remaining: Iterator[tuple[int, Case]], verdict: Verdict, tell: Callable[[str], None]
) -> list[_Run]:
    """The next batch of cases, run on the CPU and recorded on ftm."""
    batch: list[_Run] = []
    elements = 0
    for _, case in itertools.islice(remaining, BATCH):
        tell(case.label)
        run = _both(case, verdict)
        if run is None:
            verdict.refused += 1
            continue
        verdict.cases += 1
        batch.append(run)
        if not isinstance(run.expected, Exception):
            elements += sum(
                leaf.numel() for _, leaf in run.expected if isinstance(leaf, torch.Tensor)
            )
        if elements > ELEMENTS:
            break
    # all were refused; there are more
    if not batch and (case := next(remaining, None)) is not None:
        return _record(itertools.chain([case], remaining), verdict, tell)
    return batch


def _both(case: Case, verdict: Verdict | None) -> _Run | None:
    """Runs `case` on the CPU and records it on ftm; None if either refuses it."""
    torch.manual_seed(_SEED)
    expected = _attempt(case, CPU)
    if isinstance(expected, Refused):
        return None
    if isinstance(expected, Exception) and not case.may_raise:
        if verdict is not None:
            verdict.errors.append(f"{case.label}: {_describe(expected)}")
        return None
    torch.manual_seed(_SEED)
    counted = metrics.counters()
    actual = _attempt(case, FTM)
    if isinstance(actual, Refused):
        return None
    # how an exception comes about does not matter
    if verdict is not None and not isinstance(expected, Exception):
        _count_fallbacks(counted, verdict)
    return _Run(case, expected, actual)


def _attempt(case: Case, place: Place) -> list[Leaf] | Exception:
    """The results of `case` at `place`, or its exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return case.run(place)
        except Exception as error:
            return error


def _count_fallbacks(before: dict[str, int], verdict: Verdict) -> None:
    for name, value in metrics.counters().items():
        if name.startswith("fallback::") and value > before.get(name, 0):
            verdict.fallbacks[name.removeprefix("fallback::")] += value - before.get(name, 0)


def _judge(
    batch: list[_Run], tolerance: Tolerance, values: bool, verdict: Verdict | None
) -> list[str]:
    """Runs what was recorded; returns what is not right."""
    try:
        torch.ftm.synchronize()
    except Exception as error:
        return [f"{batch[0].case.label} and following: running them raises {_describe(error)}"]
    faults = []
    for run in batch:
        try:
            found = _compare_run(run, tolerance, values)
            if verdict is not None:
                verdict.closeness.update(closeness.value for closeness in found)
        except Mismatch as error:
            faults.append(f"{run.case.label}: {error}")
    return faults


def _compare_run(run: _Run, tolerance: Tolerance, values: bool) -> set[Closeness]:
    expected, actual = run.expected, run.actual
    if isinstance(expected, Exception) and isinstance(actual, Exception):
        if not _is_same_error(expected, actual):
            raise Mismatch(f"raises {_describe(actual)} instead of {_describe(expected)}")
        return set()
    if isinstance(actual, Exception):
        raise Mismatch(f"raises {_describe(actual)}")
    if isinstance(expected, Exception):
        raise Mismatch(f"does not raise {_describe(expected)}")
    if [name for name, _ in expected] != [name for name, _ in actual]:
        others = [{name for name, _ in leaves} for leaves in (expected, actual)]
        raise Mismatch(
            f"does not give {sorted(others[0] - others[1])[:3]}, but {sorted(others[1] - others[0])[:3]}"
        )
    precise, random = _Precise(run.case), _Random(run)
    found = set()
    for index, ((name, wanted), (_, given)) in enumerate(zip(expected, actual, strict=True)):
        try:
            found.add(
                compare(
                    wanted,
                    _read(wanted, given),
                    tolerance,
                    random=lambda index=index: random(index),
                    values=values,
                    precise=lambda index=index: precise(index),
                )
            )
        except Mismatch as error:
            raise Mismatch(f"{name}: {_first_lines(str(error))}") from None
    return found


def _is_same_error(one: Exception, other: Exception) -> bool:
    """Whether one type is a subclass of the other.

    PyTorch raises RuntimeError and its subclass NotImplementedError interchangeably.
    """
    return isinstance(one, type(other)) or isinstance(other, type(one))


def _read(wanted: Any, given: Any) -> Any:
    """`given` on the CPU; a result that is on another device than it should be is a mismatch."""
    if not isinstance(given, torch.Tensor) or not isinstance(wanted, torch.Tensor):
        return given
    if given.device.type != "ftm":
        raise Mismatch(f"the result is on {given.device}")
    try:
        return given.detach().cpu().requires_grad_(given.requires_grad)
    except Exception as error:
        raise Mismatch(f"reading it raises {_describe(error)}") from error


class _Precise:
    """The results of a case in float64, computed when the first of them is asked for."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._results: list[Leaf] | Exception | None = None

    def __call__(self, index: int) -> Any:
        if self._results is None:
            torch.manual_seed(_SEED)
            default = torch.get_default_dtype()
            torch.set_default_dtype(torch.float64)  # what integers become
            try:
                self._results = _attempt(self._case, PRECISE)
            finally:
                torch.set_default_dtype(default)
        if isinstance(self._results, Exception) or index >= len(self._results):
            return None
        return self._results[index][1]


class _Random:
    """Which results of a case on the CPU depend on the seed, found out when the first is asked
    for."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._others: list[list[Leaf] | Exception] = []

    def __call__(self, index: int) -> bool:
        if not self._others:
            self._others = [self._with(shift) for shift in range(1, _SEEDS + 1)]
        wanted = self._run.expected[index][1]
        return any(
            isinstance(other, Exception)
            or index >= len(other)
            or not _same(wanted, other[index][1])
            for other in self._others
        )

    def _with(self, shift: int) -> list[Leaf] | Exception:
        seed = torch.manual_seed
        # entries seed for themselves
        with mock.patch.object(torch, "manual_seed", lambda given: seed(given + shift)):
            torch.manual_seed(_SEED)
            return _attempt(self._run.case, CPU)


def _same(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor):
        return one == other or one != one
    return one.shape == other.shape and torch.allclose(
        one.detach(), other.detach(), rtol=0, atol=0, equal_nan=True
    )


def _one_by_one(
    batch: list[_Run],
    tolerance: Tolerance,
    values: bool,
    tell: Callable[[str], None],
    failures: Verdict | None,
) -> Iterator[str]:
    """Run each case of `batch` again in a separate trace; yield failures."""
    for run in batch:
        tell(f"{run.case.label}, alone")
        before = metrics.counters()["compile_failures"]
        again = _both(run.case, None)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            yield from _judge([again] if again else [], tolerance, values, None)
        if failures is not None and metrics.counters()["compile_failures"] > before:
            failures.compile_failures += 1
            failures.uncompiled += [
                f"{run.case.label}: {_first_lines(str(warning.message))}" for warning in said
            ]


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {_first_lines(str(error))}"


def _first_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[:5])[:400]
