"""Choices between alternatives by their modelled cost: the one place that compares.

Example: a transposed convolution can be computed as ``col2im`` or as ``phases``. The pass estimates
both and asks `choose`, which returns the cheaper one, unless the user has decided otherwise
(``FTM_TUNE=conv-transpose=phases``). A fusion rule has the alternatives ``fuse`` and ``keep``.
`explaining` collects the choices with the costs of all alternatives, for ``ftm opt --explain``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf, isfinite

from ftm_backend.target.presets import MachineParameters

__all__ = ["Choice", "choose", "explaining", "pays"]


@dataclass(frozen=True)
class Choice:
    """A choice that was made.

    Attributes:
        decision: Its name, as in ``FTM_TUNE``.
        subject: The operation or kernels that it is about.
        costs: Modelled cycles of each alternative; infinite if it is impossible.
        chosen: The alternative that was taken.
        tuned: The user decided.
        on_request: Alternatives that are only taken if the user decides so.
    """

    decision: str
    subject: str
    costs: Mapping[str, float]
    chosen: str
    tuned: bool
    on_request: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Describe the choice on one line."""
        costs = ", ".join(
            f"{name} {_cycles(cost)}{' (on request)' if name in self.on_request else ''}"
            for name, cost in sorted(self.costs.items(), key=self._order)
        )
        reason = " (FTM_TUNE)" if self.tuned else ""
        return f"{self.decision}: {self.subject}: {self.chosen}{reason}; cycles: {costs}"

    def _order(self, alternative: tuple[str, float]) -> tuple[bool, float]:
        name, cost = alternative
        return name in self.on_request, cost


def _cycles(cost: float) -> str:
    return f"{cost:.0f}" if isfinite(cost) else "impossible"


_LOG: ContextVar[list[Choice] | None] = ContextVar("choices", default=None)


@contextmanager
def explaining() -> Iterator[list[Choice]]:
    """Collect the choices that are made in this context."""
    log: list[Choice] = []
    token = _LOG.set(log)
    try:
        yield log
    finally:
        _LOG.reset(token)


def choose(
    machine: MachineParameters,
    decision: str,
    subject: str,
    costs: Mapping[str, float],
    all_costs: Callable[[], Mapping[str, float]] = dict,
) -> str:
    """Return the alternative that the user has chosen, else the cheapest one.

    Args:
        machine: The machine, with the user's choices.
        decision: Name of the decision.
        subject: The operation or kernels that it is about.
        costs: Modelled cycles of each alternative, the default first; it wins ties. The user's
            choice is ignored where its cost is infinite.
        all_costs: Returns the modelled cycles of all alternatives, the default first, for an
            explanation: also of those that are not in ``costs``.
    """
    wanted = machine.choice(decision)
    tuned = costs.get(wanted, inf) < inf
    chosen = wanted if tuned else min(costs, key=costs.__getitem__)
    log = _LOG.get()
    if log is not None:
        known = all_costs()
        default = next(iter(known), None)
        on_request = frozenset(
            name
            for name, cost in known.items()
            if name not in costs and name != default and isfinite(cost)
        )
        log.append(Choice(decision, subject, {**costs, **known}, chosen, tuned, on_request))
    return chosen


def pays(machine: MachineParameters, decision: str, subject: str, keep: float, fuse: float) -> bool:
    """Return whether a fusion takes fewer cycles than the kernels that it replaces."""
    return choose(machine, decision, subject, {"keep": keep, "fuse": fuse}) == "fuse"
