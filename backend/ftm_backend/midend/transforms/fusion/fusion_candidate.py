"""Kernels that grow by one statement at a time.

A candidate computes whether a statement fits only if `FusionCache` has no result for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.ir.linalg.function import Statement
from ftm_backend.midend.lowering.gemm.epilogue import can_fuse_epilogue
from ftm_backend.midend.schedule.gemm.contraction import match
from ftm_backend.midend.schedule.loop_nest.capacity_check import (
    MOST_STATEMENTS,
    common_domain,
    fits_tiles,
)
from ftm_backend.midend.schedule.loop_nest.iteration_domain import IterationDomain
from ftm_backend.midend.transforms.fusion.fusion_cache import FusionCache, ValueNumbers
from ftm_backend.midend.transforms.tensor.align_loops import aligned

__all__ = ["ChainCandidate", "NestCandidate"]


class NestCandidate:
    """Statements that share a loop nest.

    Attributes:
        tried: A statement was refused. It may have split the loops of the domain as it needed.
    """

    def __init__(
        self,
        statements: Sequence[Statement],
        cache: FusionCache,
        state: int,
        domain: IterationDomain | None,
    ) -> None:
        """Create a candidate from statements that are known to share a loop nest.

        Args:
            statements: The statements, in order.
            cache: Results for statements of equal structure.
            state: The state of the cache for these statements.
            domain: Their iteration domain, or None to compute it when needed.
        """
        self.tried = False
        self._cache, self._state = cache, state
        self._members = dict.fromkeys(statements)
        self._numbers = ValueNumbers()
        for statement in statements:
            self._numbers.take(cache.named(statement))
        self._domain = domain or IterationDomain()
        # decisions from the cache that are not in the domain yet: statement, whether it was taken
        self._later = [] if domain is not None else [(statement, True) for statement in statements]

    @staticmethod
    def begin(statement: Statement, cache: FusionCache) -> NestCandidate:
        """Return the candidate of one statement."""
        _, state = cache.get_or_compute(("one", cache.named(statement).key), lambda: True)
        return NestCandidate([statement], cache, state, None)

    @staticmethod
    def of(statements: Sequence[Statement], cache: FusionCache) -> NestCandidate | None:
        """Return the candidate of these statements; None if they cannot be one kernel."""
        if len(statements) > MOST_STATEMENTS:
            return None
        found: list[IterationDomain | None] = [None]

        def find() -> bool:
            domain = common_domain(list(statements))
            if domain is not None and fits_tiles(domain, cache.machine, cache.stored):
                found[0] = domain
            return found[0] is not None

        taken, state = cache.get_or_compute(
            ("all", cache.statements_key(statements), cache.stores(dict.fromkeys(statements))), find
        )
        return NestCandidate(statements, cache, state, found[0]) if taken else None

    def take(self, statement: Statement) -> bool:
        """Add a statement if it fits; return whether it does."""
        named = self._cache.named(statement)
        links = self._numbers.links(named)
        stores = self._cache.stores({**self._members, statement: None})
        worked_out = False

        def find() -> bool:
            nonlocal worked_out
            worked_out = True
            self._catch_up()
            return self._add(statement)

        taken, self._state = self._cache.get_or_compute(
            ("take", self._state, named.key, links, stores), find
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
        if fits_tiles(domain, self._cache.machine, self._cache.stored):
            return True
        domain.remove(statement)
        return False

    def _catch_up(self) -> None:
        """Repeat on the domain the decisions that came from the cache.

        A refused statement is added and removed, because it may have split loops.
        """
        for statement, taken in self._later:
            added = self._domain.add(statement)
            if taken and not added:
                what = f"{statement.op} over {statement.loops}"
                raise AssertionError(f"{what} does not fit, but one of equal structure did")
            if added and not taken:
                self._domain.remove(statement)
        self._later.clear()


class ChainCandidate:
    """A contraction and its epilogue, over loops that are split in the same way."""

    def __init__(
        self,
        last: Statement,
        cache: FusionCache,
        state: int,
        numbers: ValueNumbers,
        before: ChainCandidate | None,
    ) -> None:
        """Append ``last`` to the chain ``before``.

        Args:
            last: The contraction, or the last statement of its epilogue.
            cache: Results for statements of equal structure.
            state: The state of the cache for this chain.
            numbers: The values of the chain before.
            before: The chain without ``last``; None for a contraction alone.
        """
        self._last, self._cache, self._state, self._before = last, cache, state, before
        self._numbers = numbers
        self._numbers.take(cache.named(last))
        self._aligned: list[Statement] | None = None

    @staticmethod
    def begin(product: Statement, cache: FusionCache) -> ChainCandidate:
        """Return the chain of a contraction alone."""
        _, state = cache.get_or_compute(("product", cache.named(product).key), lambda: True)
        return ChainCandidate(product, cache, state, ValueNumbers(), None)

    def followed_by(self, statement: Statement) -> ChainCandidate | None:
        """Return the chain with ``statement`` at its end; None if it cannot follow."""
        if statement.is_reduction or statement.gathers:
            return None
        named = self._cache.named(statement)
        longer: list[Statement] | None = None

        def find() -> bool:
            nonlocal longer
            longer = aligned(self._statements(), statement)
            return (
                longer is not None
                and match(longer[0]) is not None
                and can_fuse_epilogue(longer[:-1], longer[-1])
            )

        taken, state = self._cache.get_or_compute(
            ("follow", self._state, named.key, self._numbers.links(named)), find
        )
        if not taken:
            return None
        made = ChainCandidate(statement, self._cache, state, ValueNumbers(self._numbers), self)
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
                "a statement does not fit a chain, but one of equal structure did"
            )
        return self._aligned
