"""Which statements share a kernel: one walk down the program, one up, each linear in its length.

Down: a statement joins the kernel of a value it reads, if their loops fit together (``Domain``, or
the epilogue of a contraction). Up: a kernel whose results all go to one other kernel joins that
one.

Kernels must not come to depend on each other in a circle. Every cluster has a *depth* that grows
along dependences. A cluster may be given depth ``d`` as long as all that read it lie deeper than
``d``; what it then reads lies at most at ``d - 1``, so no way leads back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from heapq import heappop, heappush
from typing import TypeVar

from ftm_backend.ir.linalg.affine import dot, volume
from ftm_backend.ir.linalg.function import Operand, SequentialLoop, Statement, Store, Update, Value
from ftm_backend.midend.transforms.fusion.fusion_cache import FusionCache
from ftm_backend.midend.transforms.fusion.fusion_candidate import NestCandidate
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup, place_on_cores, single
from ftm_backend.symbolic import size_hint

_T = TypeVar("_T")


class FusionPartitioner:
    """Forms the clusters of a function.

    Args:
        statements: in program order, with no repeat between them.
        updates: those of the function.
        alike: answers questions about what fits together, on its machine.
        alone: statements that share no kernel.
    """

    def __init__(
        self,
        statements: list[Statement],
        updates: Sequence[Update],
        alike: FusionCache,
        alone: Collection[Statement] = (),
    ):
        self._machine, self._alike, self._alone = alike.machine, alike, alone
        self._position = {s: k for k, s in enumerate(statements)}
        self._cluster: dict[Statement, FusionGroup] = {}
        self._reader: dict[Value, Statement] = {}  # the last statement that reads a tensor
        # read element by element: may share the kernel
        self._soft: dict[Statement, set[Statement]] = {}
        self._hard: dict[Statement, set[Statement]] = {}  # must be complete in memory before
        bases: dict[Statement, list[Value]] = {}  # what a statement's results are written over
        for update in updates:
            for number, part in enumerate(update.parts):
                producer = part.value.value.producer
                if isinstance(producer, Statement) and producer in self._position:
                    bases.setdefault(producer, []).append(update.base.value)
                    _note_store(update, number)
        for s in statements:
            soft: set[Statement] = set()
            hard: set[Statement] = set()
            for o in s.operands:
                whole = isinstance(o.value.producer, Update) or o.value.border is not None
                (hard if whole else soft).update(_makers(o.value.in_memory))
            for value in (
                *s.gathers,
                *(r.init.value for r in s.results if isinstance(r.init, Operand)),
                *bases.get(s, ()),
            ):
                hard |= _makers(value)
            self._hard[s] = hard & self._position.keys()  # what comes before a repeat is complete
            self._soft[s] = (soft - hard) & self._position.keys()
        order = _topological(statements, {s: self._soft[s] | self._hard[s] for s in statements})
        self._statements: list[Statement] = order
        self._position = {s: k for k, s in enumerate(order)}

    def clusters(self) -> list[FusionGroup]:
        """The kernels, each after those that it reads."""
        for s in self._statements:
            self._down(s)
        self._up()
        for cluster in dict.fromkeys(self._cluster.values()):
            self._settle(cluster)
        ordered = self._sorted()
        for cluster in ordered:
            place_on_cores(cluster, self._machine)
        return ordered

    # --- down
    # ------------------------------------------------------------------------------------------

    def _down(self, s: Statement) -> None:
        cluster = single(s, self._machine, self._alike)
        needs = self._soft[s] | self._hard[s]
        cluster.needs = needs
        may_join = cluster.kind == "nest" and s.volume and s not in self._alone
        home = self._join(s, cluster.is_turn) if may_join else None
        if home is None:
            home = cluster
            home.depth = 1 + max((self._cluster[m].depth for m in needs), default=-1)
        self._cluster[s] = home
        self._reader.update((o.value, s) for o in s.operands)
        self._note(home, needs)

    def _note(self, home: FusionGroup, needs: set[Statement]) -> None:
        for m in needs:
            other = self._cluster[m]
            if other is not home:
                other.consumed = min(other.consumed, home.depth)

    def _join(self, s: Statement, is_turn: bool) -> FusionGroup | None:
        """Puts ``s`` into the kernel of one of its producers, and gathers other producers' kernels
        there.

        What is turned on chip joins no nest: it can only be what a contraction does with its
        result.
        """
        hard = {self._cluster[m] for m in self._hard[s]}
        soft = [
            c
            for c in dict.fromkeys(
                self._cluster[m] for m in sorted(self._soft[s], key=self._position.__getitem__)
            )
            if c not in hard and not self._is_closed(c) and (c.kind == "contraction" or not is_turn)
        ]
        soft.sort(key=lambda c: (c.kind != "contraction", -c.depth))
        merged: set[FusionGroup] = set()
        for home in soft:
            if home in merged:
                continue
            if home.kind == "nest":
                for other in soft:
                    if other is home or other in merged or other.kind != "nest":
                        continue
                    nest = self._common_nest(other, home)
                    if nest is not None:
                        self._merge(home, other, nest)
                        merged.add(other)
            if self._enter(home, s):
                return home
        for home in () if is_turn else self._siblings(s):
            if home not in hard and self._enter(home, s):
                return home
        return None

    def _siblings(self, s: Statement) -> list[FusionGroup]:
        """Kernels that read the largest tensors that ``s`` reads: sharing one saves a pass over
        memory."""
        wide = [
            o.value
            for o in s.operands
            if 2 * size_hint(volume(o.value.shape)) >= size_hint(s.volume)
        ]
        found = [self._cluster[self._reader[v]] for v in wide if v in self._reader]
        return [c for c in dict.fromkeys(found) if c.kind == "nest" and not self._is_closed(c)]

    def _is_closed(self, cluster: FusionGroup) -> bool:
        """Whether no other statement may join a kernel."""
        return cluster.is_turn or cluster.statements[0] in self._alone

    def _enter(self, home: FusionGroup, s: Statement) -> bool:
        """Adds ``s`` to a kernel if its loops fit and no circle arises."""
        needs = self._soft[s] | self._hard[s]
        depth = max(
            [
                home.depth,
                *(1 + self._cluster[m].depth for m in needs if self._cluster[m] is not home),
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
        """That of two kernels of the same depth class that can be one without a circle, and fit
        together."""
        depth = max(a.depth, b.depth)
        if depth >= min(a.consumed, b.consumed) or self._related(a, b):
            return None
        return self._joined(a, b)

    def _joined(self, a: FusionGroup, b: FusionGroup) -> NestCandidate | None:
        return NestCandidate.of(self._in_order([*a.statements, *b.statements]), self._alike)

    def _related(self, a: FusionGroup, b: FusionGroup) -> bool:
        """Whether one must be complete in memory before the other."""
        inside = {*a.statements, *b.statements}
        return any(self._hard[s] & inside for s in inside)

    def _merge(self, home: FusionGroup, other: FusionGroup, nest: NestCandidate) -> None:
        home.statements = self._in_order([*home.statements, *other.statements])
        home.nest = nest
        home.depth = max(home.depth, other.depth)
        home.consumed = min(home.consumed, other.consumed)
        home.needs |= other.needs
        for s in other.statements:
            self._cluster[s] = home
        self._note(home, home.needs)

    def _in_order(self, statements: list[Statement]) -> list[Statement]:
        return sorted(statements, key=self._position.__getitem__)

    # --- up
    # --------------------------------------------------------------------------------------------

    def _up(self) -> None:
        """Kernels that only one other kernel reads join it: nothing can come between the two."""
        readers: dict[Statement, set[Statement]] = {}
        for s in self._statements:
            for m in self._soft[s] | self._hard[s]:
                readers.setdefault(m, set()).add(s)
        for cluster in reversed(list(dict.fromkeys(self._cluster.values()))):
            if self._cluster[cluster.statements[0]] is not cluster:  # another has taken it in
                continue
            users = {self._cluster[r] for s in cluster.statements for r in readers.get(s, ())} - {
                cluster
            }
            if len(users) != 1 or cluster.kind not in ("nest", "contraction"):
                continue
            user = users.pop()
            if self._alone and any(c.statements[0] in self._alone for c in (cluster, user)):
                continue
            if (
                user.kind != "nest"
                or self._related(cluster, user)
                or any(s.volume == 0 for s in cluster.statements)
            ):
                continue
            if cluster.kind == "contraction":
                self._append_epilogue(cluster, user)
                continue
            if cluster.is_turn or user.is_turn:
                continue
            nest = self._joined(cluster, user)
            if nest is not None:
                self._merge(user, cluster, nest)

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
            self._cluster[s] = home

    # --- order
    # -----------------------------------------------------------------------------------------

    def _settle(self, cluster: FusionGroup) -> None:
        """A nest that fits only as split by statements that were tried and are not in it falls
        apart."""
        if cluster.nest is None or not cluster.nest.tried or len(cluster.statements) == 1:
            return
        if NestCandidate.of(cluster.statements, self._alike) is None:
            for s in cluster.statements:
                self._cluster[s] = single(s, self._machine, self._alike)

    def _sorted(self) -> list[FusionGroup]:
        """Clusters in an order that respects all reads, otherwise that of the program."""
        clusters = list(dict.fromkeys(self._cluster[s] for s in self._statements))
        return _topological(
            clusters,
            {
                c: {self._cluster[m] for s in c.statements for m in self._soft[s] | self._hard[s]}
                - {c}
                for c in clusters
            },
        )


def _makers(value: Value) -> set[Statement]:
    """The statements whose kernels complete a value."""
    maker = value.producer
    if maker is None or isinstance(maker, SequentialLoop):
        return set()
    if isinstance(maker, Statement):
        return {maker}
    made = {p.value.value.producer for p in maker.parts}
    # A base is complete before its parts are written; without parts it would be complete by itself.
    return {m for m in made if isinstance(m, Statement)} or _makers(maker.base.value)


def _note_store(update: Update, number: int) -> None:
    """Tells the updating statement where it will store: loops must be able to follow that address
    too."""
    part = update.parts[number]
    producer = part.value.value.producer
    assert isinstance(producer, Statement)
    result = next(r for r in producer.results if r.value is part.value.value)
    index = dot(result.indices, part.place.strides, part.place.offset, len(producer.loops))
    result.stores.append(Store(update.result, index))


def _topological(items: Sequence[_T], needs: Mapping[_T, set[_T]]) -> list[_T]:
    """``items`` with each after all that it needs, otherwise in the given order.

    Raises:
        AssertionError: they need each other in a circle.
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
            f"{len(items) - len(order)} of {len(items)} operations depend on each other in a circle"
        )
    return order
