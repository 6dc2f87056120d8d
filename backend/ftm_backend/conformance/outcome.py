"""The result of one check, and the report of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class CheckOutcome:
    """The outcome of one check.

    Attributes:
        name: Its kind and subject, as in a file of expected failures.
        passed: Whether the machine was right.
        detail: The difference, or why it did not run.
        seconds: Time of one run on the machine; 0 if it did not run.
        reason: Why a failure is expected; "" if none is.
    """

    name: str
    passed: bool
    detail: str = ""
    seconds: float = 0.0
    reason: str = ""

    def expected_to_fail(self, reason: str) -> CheckOutcome:
        """Mark it as an expected failure; a check that passes nevertheless is reported."""
        detail = (
            self.detail
            if not self.passed
            else f"passes, though it was expected to fail ({reason}): take it off the list"
        )
        return replace(self, reason=reason, detail=detail)

    @property
    def counts(self) -> bool:
        """Whether it counts against the machine: unexpected failures and unexpected passes."""
        return self.passed == bool(self.reason)

    @property
    def kind(self) -> str:
        """``instruction``, ``op`` or ``model``."""
        return self.name.partition(" ")[0]


def report(outcomes: Sequence[CheckOutcome], about: Mapping[str, object]) -> str:
    """Return a table of the kinds, the checks that count, and the times of the models."""
    lines = [
        f"{about['machine']}: {about['description']}",
        f"preset {about['preset']}, {about['cores']} cores",
        "",
        f"{'kind':<12} {'passed':>7} {'expected':>9} {'failed':>7}",
    ]
    for kind in dict.fromkeys(o.kind for o in outcomes):
        own = [o for o in outcomes if o.kind == kind]
        passed, failed = sum(o.passed for o in own), sum(o.counts for o in own)
        lines.append(f"{kind:<12} {passed:>7} {sum(bool(o.reason) for o in own):>9} {failed:>7}")
    timed = [o for o in outcomes if o.kind == "model" and o.seconds]
    if timed:
        lines += [
            "",
            f"{'model':<24} {'ms a run':>9}",
            *(f"{o.name.removeprefix('model '):<24} {o.seconds * 1e3:>9.3f}" for o in timed),
        ]
    wrong = [o for o in outcomes if o.counts]
    lines += ["", *(f"FAILED {o.name}: {o.detail}" for o in wrong)] if wrong else ["", "compatible"]
    return "\n".join(lines)
