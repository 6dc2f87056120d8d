"""Partition statements into fusion groups, in time linear in their number.

Downwards: a statement joins the group of a value that it reads, if their loops fit together.
Upwards: a group whose results only one other group reads joins that one.

Groups must not depend on each other in a cycle. Each group has a *depth* that grows along
dependences. A group may get depth ``d`` as long as all groups that read it are deeper than ``d``.
What it reads then has at most depth ``d - 1``, so no path leads back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from heapq import heappop, heappush
from typing import TypeVar

from ftm_backend.ir.linalg.affine import dot, volume
from ftm_backend.ir.linalg.function import (
    COLLECTIVE_START,
    COLLECTIVE_WAIT,
    Operand,
    SequentialLoop,
    Statement,
    Store,
    Update,
    Value,
)
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.transforms.fusion.fusion_cache import FusionCache
from ftm_backend.midend.transforms.fusion.fusion_candidate import NestCandidate
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup, place_on_cores, single
from ftm_backend.symbolic import size_hint

_T = TypeVar("_T")


class FusionPartitioner:
    """Partitions the statements of a function."""

    def __init__(
        self,
        statements: list[Statement],
        updates: Sequence[Update],
        cache: FusionCache,
        alone: Collection[Statement] = (),
    ):
        """Collect the dependences of all statements.

        Args:
            statements: The statements in program order, with no loop between them.
            updates: The updates of the function.
            cache: Decides what fits together, and holds the machine.
            alone: Statements that get groups of their own.
        """
        self._machine, self._cache, self._alone = cache.machine, cache, alone
        self._position = {s: k for k, s in enumerate(statements)}
        self._group: dict[Statement, FusionGroup] = {}
        self._reader: dict[Value, Statement] = {}  # the last statement that reads a tensor
        # read element by element: the producer may be in the same kernel
        self._soft: dict[Statement, set[Statement]] = {}
        self._hard: dict[Statement, set[Statement]] = {}  # the producer must be complete in memory
        bases: dict[
            Statement, list[Value]
        ] = {}  # bases that a statement's results are written over
        for update in updates:
            for number, part in enumerate(update.parts):
                producer = part.value.value.producer
                if isinstance(producer, Statement) and producer in self._position:
                    bases.setdefault(producer, []).append(update.base.value)
                    _note_store(update, number)
        started: Statement | None = None  # the last collective: collectives start in order
        for s in statements:
            soft: set[Statement] = set()
            hard: set[Statement] = set()
            if s.op == COLLECTIVE_START:
                hard |= {started} if started is not None else set()
                started = s
            for o in s.operands:
                whole = isinstance(o.value.producer, Update) or o.value.border is not None
                (hard if whole else soft).update(_makers(o.value.in_memory))
            for value in (
                *s.gathers,
                *(r.init.value for r in s.results if isinstance(r.init, Operand)),
                *bases.get(s, ()),
            ):
                hard |= _makers(value)
            self._hard[s] = hard & self._position.keys()  # producers before a loop are complete
            self._soft[s] = (soft - hard) & self._position.keys()
        self._send_before_waits(self._ordered(statements))
        self._statements: list[Statement] = self._ordered(statements)
        self._position = {s: k for k, s in enumerate(self._statements)}

    def _ordered(self, statements: Sequence[Statement]) -> list[Statement]:
        """Return statements, each after all that it needs."""
        return _topological(statements, {s: self._soft[s] | self._hard[s] for s in statements})

    def _send_before_waits(self, statements: Sequence[Statement]) -> None:
        """Let readers of a collective's result need what starts without it: messages, mainly.

        Example: ``b = recv(); use(b); send(a)``. If the program waited for b before it sends a, and
        the other process needs a to compute b, both would wait forever. Collectives of all
        processes need no such order, since all start them in the same one.

        Args:
            statements: The statements, each after all that it needs. Program order is another one:
                a producer of an update's part may precede the producer of its base.
        """
        starts = [s for s in statements if s.op == COLLECTIVE_START]
        kinds = [str(s.attributes["kind"]) for s in starts]
        if not {"send", "recv"}.intersection(kinds):
            return
        number = {start: k for k, start in enumerate(starts)}
        # statement -> the results that it depends on, as bits by the number of their collective
        results: dict[Statement, int] = {}
        # number of a collective -> the statements that read its result
        readers: dict[int, list[Statement]] = {}
        for s in statements:
            results[s] = 0
            for maker in self._soft[s] | self._hard[s]:
                results[s] |= results[maker]
                if maker.op == COLLECTIVE_WAIT:
                    (start,) = self._soft[maker] | self._hard[maker]
                    results[s] |= 1 << number[start]
                    readers.setdefault(number[start], []).append(s)
        for k, reading in readers.items():
            independent = [
                start
                for start, kind in zip(starts, kinds, strict=True)
                if kinds[k] == "recv" or kind == "send"
                if not results[start] >> k & 1
            ]
            for s in reading:
                self._hard[s].update(independent[-1:])
                self._soft[s].difference_update(independent[-1:])

    def groups(self) -> list[FusionGroup]:
        """Return the groups, each after those that it reads."""
        for s in self._statements:
            self._down(s)
        self._up()
        for group in dict.fromkeys(self._group.values()):
            self._settle(group)
        ordered = self._sorted()
        for group in ordered:
            place_on_cores(group, self._machine)
        return ordered

    # --- down

    def _down(self, s: Statement) -> None:
        group = single(s, self._machine, self._cache)
        needs = self._soft[s] | self._hard[s]
        group.needs = needs
        may_join = group.kind is KernelKind.LOOP_NEST and s.volume and s not in self._alone
        home = self._join(s, group.is_transpose) if may_join else None
        if home is None:
            home = group
            home.depth = 1 + max((self._group[m].depth for m in needs), default=-1)
        self._group[s] = home
        self._reader.update((o.value, s) for o in s.operands)
        self._note(home, needs)

    def _note(self, home: FusionGroup, needs: set[Statement]) -> None:
        for m in needs:
            other = self._group[m]
            if other is not home:
                other.consumed = min(other.consumed, home.depth)

    def _join(self, s: Statement, is_transpose: bool) -> FusionGroup | None:
        """Add ``s`` to the group of a producer, and merge groups of other producers into it.

        A copy that is transposed on chip joins no loop nest, only the epilogue of a contraction.

        Returns:
            The group, or None if ``s`` fits nowhere.
        """
        hard = {self._group[m] for m in self._hard[s]}
        soft = self._producers(s, hard, is_transpose)
        merged: set[FusionGroup] = set()
        for home in soft:
            if home in merged:
                continue
            if home.kind is KernelKind.LOOP_NEST:
                merged |= self._absorb(home, [c for c in soft if c not in merged])
            if self._enter(home, s):
                return home
        for home in () if is_transpose else self._siblings(s):
            if home not in hard and self._enter(home, s):
                return home
        return None

    def _producers(
        self, s: Statement, hard: set[FusionGroup], is_transpose: bool
    ) -> list[FusionGroup]:
        """Return the groups whose values ``s`` reads element by element: products, then deepest."""
        in_order = sorted(self._soft[s], key=self._position.__getitem__)
        found = [
            c
            for c in dict.fromkeys(self._group[m] for m in in_order)
            if c not in hard
            and not self._is_closed(c)
            and (c.kind is KernelKind.CONTRACTION or not is_transpose)
        ]
        return sorted(found, key=lambda c: (c.kind is not KernelKind.CONTRACTION, -c.depth))

    def _absorb(self, home: FusionGroup, others: Sequence[FusionGroup]) -> set[FusionGroup]:
        """Merge into a group those of ``others`` that share its loop nest; return them."""
        merged = set()
        for other in others:
            if other is not home and other.kind is KernelKind.LOOP_NEST:
                nest = self._common_nest(other, home)
                if nest is not None:
                    self._merge(home, other, nest)
                    merged.add(other)
        return merged

    def _siblings(self, s: Statement) -> list[FusionGroup]:
        """Return groups that read the largest tensors that ``s`` reads.

        One kernel then reads such a tensor once.
        """
        wide = [
            o.value
            for o in s.operands
            if 2 * size_hint(volume(o.value.shape)) >= size_hint(s.volume)
        ]
        found = [self._group[self._reader[v]] for v in wide if v in self._reader]
        return [
            c
            for c in dict.fromkeys(found)
            if c.kind is KernelKind.LOOP_NEST and not self._is_closed(c)
        ]

    def _is_closed(self, group: FusionGroup) -> bool:
        """Return whether no statement may join a group."""
        return group.is_transpose or group.statements[0] in self._alone

    def _enter(self, home: FusionGroup, s: Statement) -> bool:
        """Add ``s`` to a group if its loops fit and there is no cycle."""
        needs = self._soft[s] | self._hard[s]
        depth = max(
            [
                home.depth,
                *(1 + self._group[m].depth for m in needs if self._group[m] is not home),
            ]
        )
        if depth >= home.consumed or not self._takes(home, s):
            return False
        home.depth = depth
        home.statements.append(s)
        home.needs |= needs
        return True

    def _takes(self, home: FusionGroup, s: Statement) -> bool:
        if home.chain is not None:
            chain = home.chain.followed_by(s)
            home.chain = chain or home.chain
            return chain is not None
        return home.nest is not None and home.nest.take(s)

    def _common_nest(self, a: FusionGroup, b: FusionGroup) -> NestCandidate | None:
        """Return the loop nest of two groups; None if it does not exist or makes a cycle."""
        depth = max(a.depth, b.depth)
        if depth >= min(a.consumed, b.consumed) or self._related(a, b):
            return None
        return self._joined(a, b)

    def _joined(self, a: FusionGroup, b: FusionGroup) -> NestCandidate | None:
        return NestCandidate.of(self._in_order([*a.statements, *b.statements]), self._cache)

    def _related(self, a: FusionGroup, b: FusionGroup) -> bool:
        """Return whether one group must be complete in memory before the other."""
        inside = {*a.statements, *b.statements}
        return any(self._hard[s] & inside for s in inside)

    def _merge(self, home: FusionGroup, other: FusionGroup, nest: NestCandidate) -> None:
        home.statements = self._in_order([*home.statements, *other.statements])
        home.nest = nest
        home.depth = max(home.depth, other.depth)
        home.consumed = min(home.consumed, other.consumed)
        home.needs |= other.needs
        for s in other.statements:
            self._group[s] = home
        self._note(home, home.needs)

    def _in_order(self, statements: list[Statement]) -> list[Statement]:
        return sorted(statements, key=self._position.__getitem__)

    # --- up

    def _up(self) -> None:
        """Merge each group that only one other group reads into that one.

        Nothing can come between the two, so there is no cycle.
        """
        readers: dict[Statement, set[Statement]] = {}
        for s in self._statements:
            for m in self._soft[s] | self._hard[s]:
                readers.setdefault(m, set()).add(s)
        for group in reversed(list(dict.fromkeys(self._group.values()))):
            if self._group[group.statements[0]] is not group:  # it was merged
                continue
            users = {self._group[r] for s in group.statements for r in readers.get(s, ())} - {group}
            if len(users) == 1 and self._may_merge_up(group, *users):
                self._merge_up(group, *users)

    def _may_merge_up(self, group: FusionGroup, user: FusionGroup) -> bool:
        """Return whether the kinds and the dependences of two groups allow to merge them."""
        is_separate = any(c.statements[0] in self._alone for c in (group, user))
        return (
            group.kind.can_grow
            and user.kind is KernelKind.LOOP_NEST
            and not is_separate
            and not self._related(group, user)
            and all(s.volume != 0 for s in group.statements)
        )

    def _merge_up(self, group: FusionGroup, user: FusionGroup) -> None:
        """Make ``user`` the epilogue of a contraction, or one loop nest with another one."""
        if group.kind is KernelKind.CONTRACTION:
            self._append_epilogue(group, user)
        elif not group.is_transpose and not user.is_transpose:
            nest = self._joined(group, user)
            if nest is not None:
                self._merge(user, group, nest)

    def _append_epilogue(self, home: FusionGroup, user: FusionGroup) -> None:
        chain = home.chain
        for s in user.statements:
            chain = chain and chain.followed_by(s)
        if chain is None:
            return
        home.chain = chain
        home.statements += user.statements
        home.needs |= user.needs
        for s in user.statements:
            self._group[s] = home

    # --- order

    def _settle(self, group: FusionGroup) -> None:
        """Split a group whose loops fit only because of a statement that was refused."""
        if group.nest is None or not group.nest.tried or len(group.statements) == 1:
            return
        if NestCandidate.of(group.statements, self._cache) is None:
            for s in group.statements:
                self._group[s] = single(s, self._machine, self._cache)

    def _sorted(self) -> list[FusionGroup]:
        """Return the groups in program order, except where dependences need another one.

        Groups that wait for a collective come as late as possible, so that others run meanwhile.
        """
        groups = list(dict.fromkeys(self._group[s] for s in self._statements))
        needs = {
            c: {self._group[m] for s in c.statements for m in self._soft[s] | self._hard[s]} - {c}
            for c in groups
        }
        return _with_late_waits(_topological(groups, needs), needs)


def _with_late_waits(
    ordered: list[FusionGroup], needs: Mapping[FusionGroup, set[FusionGroup]]
) -> list[FusionGroup]:
    """Move each group that waits for a collective before the first group that reads its result."""
    waits = [c for c in ordered if c.statements[0].op == COLLECTIVE_WAIT]
    if not waits:
        return ordered
    placed: list[FusionGroup] = []
    left = dict.fromkeys(waits)
    for group in ordered:
        if group in left:
            continue
        for wait in [w for w in left if w in needs[group]]:
            del left[wait]
            placed.append(wait)
        placed.append(group)
    return [*placed, *left]


def _makers(value: Value) -> set[Statement]:
    """Return the statements whose kernels complete a value."""
    maker = value.producer
    if maker is None or isinstance(maker, SequentialLoop):
        return set()
    if isinstance(maker, Statement):
        return {maker}
    made = {p.value.value.producer for p in maker.parts}
    # the parts complete the value; without parts the base does
    return {m for m in made if isinstance(m, Statement)} or _makers(maker.base.value)


def _note_store(update: Update, number: int) -> None:
    """Add the store of an update's part to its producer: loops must follow that address too."""
    part = update.parts[number]
    producer = part.value.value.producer
    assert isinstance(producer, Statement)
    result = producer.result_of(part.value.value)
    index = dot(result.indices, part.place.strides, part.place.offset, len(producer.loops))
    result.stores.append(Store(update.result, index))


def _topological(items: Sequence[_T], needs: Mapping[_T, set[_T]]) -> list[_T]:
    """Return ``items`` with each after all that it needs, else in the given order.

    Raises:
        AssertionError: There is a cycle.
    """
    number = {item: k for k, item in enumerate(items)}
    users: dict[_T, list[_T]] = {}
    for item in items:
        for need in needs[item]:
            users.setdefault(need, []).append(item)
    waiting = {item: len(needs[item]) for item in items}
    ready = [k for k, item in enumerate(items) if not waiting[item]]
    order: list[_T] = []
    while ready:
        item = items[heappop(ready)]
        order.append(item)
        for user in users.get(item, ()):
            waiting[user] -= 1
            if not waiting[user]:
                heappush(ready, number[user])
    if len(order) != len(items):
        raise AssertionError(
            f"{len(items) - len(order)} of {len(items)} operations depend on each other in a cycle"
        )
    return order
