"""Pass `insert-waits`: wait for asynchronous DMA where needed, and nowhere else.

A slot must be waited for before it is read while a load into it is in flight, and before it is
written while a load or store is in flight. The same holds for slots of tiles that share bytes.

A dataflow analysis follows transfers in flight through loops. The slots of a ring are distinguished
by their index expressions: what iteration i calls slot ``i + 1`` is slot ``i`` of the next one.
Functions start and end with nothing in flight.

Changes the bodies of kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from ftm_backend.ir.tile.index_expr import Atom, Expr, IndexFactory
from ftm_backend.ir.tile.kernel_tree import (
    Block,
    Slot,
    TileBranch,
    TileDecl,
    TileInstruction,
    TileKernel,
    TileLoop,
    instructions,
)
from ftm_backend.symbolic import statically_known_nonnegative

InFlight = tuple[TileDecl, "Expr | None", str]
"""A transfer: tile, slot (None: any slot of the ring), ``load`` or ``store``."""

State = frozenset[InFlight]

_ROUNDS = 4
"""Iterations of a loop that are analyzed before the closed form `_without_waits` is tried.

It applies to loops in which transfers accumulate, such as one that fills a ring.
"""


def insert_waits(kernel: TileKernel) -> None:
    """Add ``DWAIT`` and ``DWAITALL`` to the kernel's body. Tiles must have been placed."""
    sync = _WaitInserter(kernel)
    body, state = sync.block(kernel.body, frozenset())
    kernel.body = [*body, _wait_all()] if state else body


def _wait_all() -> TileInstruction:
    return TileInstruction("DWAITALL")


class _WaitInserter:
    def __init__(self, kernel: TileKernel) -> None:
        self.indices: IndexFactory = kernel.indices
        order = {tile: number for number, tile in enumerate(kernel.tiles)}
        # For each tile the tiles that share bytes with it, with their position among all tiles.
        self.sharing = {
            tile: {t: order[t] for t in kernel.tiles if t is not tile and _share(t, tile)}
            for tile in kernel.tiles
        }
        self._memo: dict[tuple[int, State], tuple[Block, State]] = {}
        self._moved: dict[tuple[Expr, int, Atom, Expr], Expr | None] = {}
        self._modulo: dict[tuple[Expr, int], Expr] = {}
        self._equal: dict[tuple[Expr, Expr, int], bool | None] = {}

    def block(self, block: Block, state: State) -> tuple[Block, State]:
        """Return the block with waits, and the transfers in flight after it."""
        result: Block = []
        for statement in block:
            if isinstance(statement, TileInstruction):
                waits, state = self.instruction(statement, state)
                result += [*waits, statement]
            elif isinstance(statement, TileLoop):
                loop, state = self.loop(statement, state)
                result.append(loop)
            else:
                body, taken = self.block(statement.body, state)
                otherwise, skipped = self.block(statement.otherwise, state)
                result.append(TileBranch(statement.condition, body, otherwise))
                state = taken | skipped
        return result, state

    def loop(self, loop: TileLoop, before: State) -> tuple[TileLoop, State]:
        key = id(loop), before
        found = self._memo.get(key)
        if found is None:
            state = self._entering(before, loop)
            for rounds in count(1):
                body, after = self.block(loop.body, state)
                again = state | self._renamed(after, loop)
                if again == state:
                    break
                state = again
                if rounds == _ROUNDS and (whole := self._without_waits(again, loop)) is not None:
                    body, after = whole
                    break
            skipped = (
                frozenset()
                if statically_known_nonnegative(self.indices.sub(loop.upper, loop.lower).low - 1)
                else before
            )
            after_loop = frozenset(
                (t, None if e is not None and e.depends_on(loop.variable) else e, k)
                for t, e, k in after
            )
            found = self._memo[key] = body, after_loop | skipped
        return TileLoop(loop.variable, loop.lower, loop.upper, found[0]), found[1]

    def _without_waits(self, state: State, loop: TileLoop) -> tuple[Block, State] | None:
        """Analyze a loop as if no iteration waited for a transfer of an earlier one.

        Then all transfers of all iterations are in flight. More transfers in flight only add
        waits, so if that state causes no wait, it is the loop's state.

        Returns:
            The body and the transfers in flight after it; None if an iteration waits.
        """
        new, found = state, set(state)
        while new := self._renamed(new, loop) - found:
            found |= new
        state = frozenset(found)
        body, after = self.block(loop.body, state)
        return (body, after) if state <= after and self._renamed(after, loop) <= state else None

    def _entering(self, before: State, loop: TileLoop) -> State:
        """Return the transfers in flight before the first iteration, as the body names slots."""
        if all(tile.depth == 1 for tile, _, _ in before):
            return before
        names = {
            (slot.tile, slot.index)
            for i in instructions(loop.body)
            for slot in i.slots()
            if slot.tile.depth > 1
        }
        first = {(t, self._shifted(e, t, loop.variable, loop.lower)): e for t, e in names}
        return frozenset(
            (tile, self._reduced(first[tile, slot], tile) if (tile, slot) in first else slot, kind)
            for tile, slot, kind in before
        )

    def _renamed(self, state: State, loop: TileLoop) -> State:
        """Return the transfers after an iteration in terms of the next iteration's counter."""
        moving = [flight for flight in state if flight[1] is not None and flight[1].terms]
        if not moving:  # usually: the one slot of a tile that is no ring
            return state
        last = self.indices.sub(self.indices.of(loop.variable), self.indices.constant(1))
        return state.difference(moving) | {
            (tile, self._shifted(slot, tile, loop.variable, last), kind)
            for tile, slot, kind in moving
        }

    def _shifted(
        self, slot: Expr | None, tile: TileDecl, variable: Atom, value: Expr
    ) -> Expr | None:
        if slot is None:
            return None
        key = slot, tile.depth, variable, value
        if key not in self._moved:
            if not slot.depends_on(variable):
                self._moved[key] = slot
            elif slot.coefficient(variable) is None:
                # Not linear: each iteration would add another expression without end.
                self._moved[key] = None
            else:
                self._moved[key] = self._reduced(
                    self.indices.substitute(slot, variable, value), tile
                )
        return self._moved[key]

    def _reduced(self, slot: Expr, tile: TileDecl) -> Expr:
        """Return the slot's index modulo the ring's depth."""
        depth = tile.depth
        found = self._modulo.get((slot, depth))
        if found is None:
            found = self._modulo[slot, depth] = self.indices.linear(
                slot.const % depth, {atom: c % depth for atom, c in slot.terms}
            )
        return found

    def instruction(
        self, statement: TileInstruction, state: State
    ) -> tuple[list[TileInstruction], State]:
        """Return the waits that an instruction needs, and the transfers in flight after it."""
        waits: list[TileInstruction] = []
        if not state and not statement.is_dma:
            return waits, state
        if statement.kind == "barrier":
            return waits, frozenset()
        if statement.kind == "call" or (
            statement.from_memory and any(flight[2] == "store" for flight in state)
        ):
            return [_wait_all()], frozenset()
        hazards = [(s, ("load",)) for s in statement.reads] + [
            (s, ("load", "store")) for s in statement.writes
        ]
        for slot, kinds in hazards:
            state = self._wait(slot, kinds, state, waits)
            sharing = self.sharing[slot.tile] if "store" in kinds else {}
            if sharing and (others := [flight for flight in state if flight[0] in sharing]):
                for tile, index, _ in sorted(
                    others, key=lambda flight: (sharing[flight[0]], repr(flight[1]))
                ):
                    state = self._wait_for(tile, index, state, waits)
        return waits, state | self._starts(statement)

    def _wait(
        self, slot: Slot, kinds: Iterable[str], state: State, waits: list[TileInstruction]
    ) -> State:
        for tile, index, kind in state:
            if (
                tile is slot.tile
                and kind in kinds
                and self._same(tile, index, slot.index) is not False
            ):
                break
        else:
            return state
        waits.append(TileInstruction("DWAIT", (slot,)))
        return frozenset(
            [
                flight
                for flight in state
                if not (
                    flight[0] is slot.tile and self._same(slot.tile, flight[1], slot.index) is True
                )
            ]
        )

    def _wait_for(
        self, tile: TileDecl, index: Expr | None, state: State, waits: list[TileInstruction]
    ) -> State:
        if not any(flight[0] is tile and flight[1] is index for flight in state):
            return state
        if index is None:
            waits.append(_wait_all())
            return frozenset()
        return self._wait(Slot(tile, index), ("load", "store"), state, waits)

    def _same(self, tile: TileDecl, a: Expr | None, b: Expr) -> bool | None:
        """Whether two indices are the same slot of a ring; None if unknown."""
        if tile.depth == 1:
            return True
        if a is None:
            return None
        key = a, b, tile.depth
        if key not in self._equal:
            difference = self._reduced(self.indices.sub(a, b), tile)
            self._equal[key] = None if difference.terms else difference.const == 0
        return self._equal[key]

    def _starts(self, statement: TileInstruction) -> State:
        """Return the transfers that an instruction starts.

        A gather or scatter reads its indices when it is issued.
        """
        if statement.kind == "copy":
            return frozenset(
                (s.tile, self._reduced(s.index, s.tile), kind)
                for slots, kind in ((statement.writes, "load"), (statement.reads, "store"))
                for s in slots
            )
        if statement.kind in ("load", "gather"):
            return frozenset(
                (s.tile, self._reduced(s.index, s.tile), "load") for s in statement.writes
            )
        if statement.kind in ("store", "scatter"):
            return frozenset(
                (s.tile, self._reduced(s.index, s.tile), "store") for s in statement.reads
            )
        return frozenset()


def _share(a: TileDecl, b: TileDecl) -> bool:
    return a.space == b.space and not (
        statically_known_nonnegative(a.offset - b.offset - b.bytes)
        or statically_known_nonnegative(b.offset - a.offset - a.bytes)
    )
