"""Kernels that take statement after statement: what the next one must fit to, worked out only where
`alike` has no answer."""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.ir.linalg.function import Statement
from ftm_backend.midend.lowering.gemm import lower as contraction
from ftm_backend.midend.schedule.loop_nest.capacity_check import (
    MOST_STATEMENTS,
    common_domain,
    fits_tiles,
)
from ftm_backend.midend.schedule.loop_nest.iteration_domain import IterationDomain
from ftm_backend.midend.transforms.fusion.fusion_cache import FusionCache, ShapeNumbers
from ftm_backend.midend.transforms.tensor.align_loops import aligned

__all__ = ["ChainCandidate", "NestCandidate"]


class NestCandidate:
    """Statements that share a loop nest, and their domain.

    ``tried``: statements that did not fit may have split the domain as they wanted.
    """

    def __init__(
        self,
        statements: Sequence[Statement],
        alike: FusionCache,
        state: int,
        domain: IterationDomain | None,
    ) -> None:
        self.tried = False
        self._alike, self._state = alike, state
        self._members = dict.fromkeys(statements)
        self._numbers = ShapeNumbers()
        for statement in statements:
            self._numbers.take(alike.named(statement))
        self._domain = domain or IterationDomain()
        # What the domain has not been told of yet: statements, and whether they were taken.
        self._later = [] if domain is not None else [(statement, True) for statement in statements]

    @staticmethod
    def begin(statement: Statement, alike: FusionCache) -> NestCandidate:
        """The nest of one statement."""
        _, state = alike.ask(("one", alike.named(statement).number), lambda: True)
        return NestCandidate([statement], alike, state, None)

    @staticmethod
    def of(statements: Sequence[Statement], alike: FusionCache) -> NestCandidate | None:
        """The nest of these statements; None when they do not belong into one kernel."""
        if len(statements) > MOST_STATEMENTS:
            return None
        numbers, words = ShapeNumbers(), []
        for statement in statements:
            named = alike.named(statement)
            words.append((named.number, numbers.links(named)))
            numbers.take(named)
        found: list[IterationDomain | None] = [None]

        def find() -> bool:
            domain = common_domain(list(statements))
            if domain is not None and fits_tiles(domain, alike.machine, alike.stored):
                found[0] = domain
            return found[0] is not None

        taken, state = alike.ask(
            ("all", tuple(words), alike.stores(dict.fromkeys(statements))), find
        )
        return NestCandidate(statements, alike, state, found[0]) if taken else None

    def take(self, statement: Statement) -> bool:
        """Adds a statement if it fits."""
        named = self._alike.named(statement)
        links = self._numbers.links(named)
        stores = self._alike.stores({**self._members, statement: None})
        worked_out = False

        def find() -> bool:
            nonlocal worked_out
            worked_out = True
            self._catch_up()
            return self._add(statement)

        taken, self._state = self._alike.ask(
            ("take", self._state, named.number, links, stores), find
        )
        if not worked_out:
            self._later.append((statement, taken))
        if taken:
            self._members[statement] = None
            self._numbers.take(named)
        else:
            self.tried = True
        return taken

    def _add(self, statement: Statement) -> bool:
        domain = self._domain
        if not domain.add(statement):
            return False
        if fits_tiles(domain, self._alike.machine, self._alike.stored):
            return True
        domain.remove(statement)
        return False

    def _catch_up(self) -> None:
        """Does to the domain what was answered without it; what was not taken may have split it."""
        for statement, taken in self._later:
            added = self._domain.add(statement)
            if taken and not added:
                raise AssertionError(
                    f"{statement.op} over {statement.loops} does not fit where one that is like it did"
                )
            if added and not taken:
                self._domain.remove(statement)
        self._later.clear()


class ChainCandidate:
    """A contraction and what follows it, over loops that are cut alike."""

    def __init__(
        self,
        last: Statement,
        alike: FusionCache,
        state: int,
        numbers: ShapeNumbers,
        before: ChainCandidate | None,
    ) -> None:
        self._last, self._alike, self._state, self._before = last, alike, state, before
        self._numbers = numbers
        self._numbers.take(alike.named(last))
        self._aligned: list[Statement] | None = None

    @staticmethod
    def begin(product: Statement, alike: FusionCache) -> ChainCandidate:
        """A contraction alone."""
        _, state = alike.ask(("product", alike.named(product).number), lambda: True)
        return ChainCandidate(product, alike, state, ShapeNumbers(), None)

    def followed_by(self, statement: Statement) -> ChainCandidate | None:
        """The chain with a statement at its end; None when it must not follow there."""
        if statement.is_reduction or statement.gathers:
            return None
        named = self._alike.named(statement)
        longer: list[Statement] | None = None

        def find() -> bool:
            nonlocal longer
            longer = aligned(self._statements(), statement)
            return (
                longer is not None
                and contraction.match(longer[0]) is not None
                and contraction.can_fuse_epilogue(longer[:-1], longer[-1])
            )

        taken, state = self._alike.ask(
            ("follow", self._state, named.number, self._numbers.links(named)), find
        )
        if not taken:
            return None
        made = ChainCandidate(statement, self._alike, state, ShapeNumbers(self._numbers), self)
        made._aligned = longer
        return made

    def _statements(self) -> list[Statement]:
        if self._aligned is None:
            self._aligned = (
                [self._last]
                if self._before is None
                else aligned(self._before._statements(), self._last)
            )
            assert self._aligned is not None, (
                "a statement does not follow where one that is like it did"
            )
        return self._aligned
