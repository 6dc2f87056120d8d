"""Overlaps transfers with computing: software-pipelines the loads of tile loops, and gives stores a
ring.

In a loop whose body loads a tile that only this iteration uses, the load of the next iteration is
issued before the computing of this one, behind what that has copied on chip, into the other slot of
a ring; a tile that is computed and stored gets a ring so that the next iteration need not wait for
the store. A transformation happens only where it is safe (nothing in the loop may write what is
loaded early) and where the larger tiles still fit.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import prod

from ftm_backend.codegen import allocate_scratchpad
from ftm_backend.ir.tile.index_expr import Atom, Expr, IndexFactory
from ftm_backend.ir.tile.kernel_tree import (
    Block,
    IndexUse,
    Slot,
    TileBranch,
    TileDecl,
    TileInstruction,
    TileKernel,
    TileLoop,
    Transfer,
    instructions,
)
from ftm_backend.ir.tile.program import TileProgram
from ftm_backend.symbolic import SymInt
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["SlotPlaces", "overlap"]


class SlotPlaces:
    """Which DDR buffers may share memory."""

    def __init__(self) -> None:
        self._group: dict[str, str] = {}
        self._regions: dict[str, tuple[str, int, int]] = {}

    @staticmethod
    def of(program: TileProgram) -> SlotPlaces:
        """Those of a program: outputs with the inputs that they may replace, regions of the arena
        and of GSM."""
        places = SlotPlaces()
        for symbol, _, _, alias in program.outputs:
            if alias:
                places.share(symbol, alias)
        for memory, regions in (("arena", program.arena), ("gsm", program.gsm)):
            for symbol, offset, dtype, shape in regions:
                places.region(symbol, offset, dtype, shape, memory)
        return places

    def within(self, kernel: TileKernel) -> SlotPlaces:
        """These and those of the kernel's parameters."""
        if not kernel.parameters:
            return self
        places = SlotPlaces()
        places._group, places._regions = dict(self._group), self._regions
        for parameter in kernel.parameters:
            if parameter.alias:
                places.share(parameter.name, parameter.alias)
        return places

    def share(self, a: str, b: str) -> None:
        """Says that ``a`` may be the same memory as ``b``."""
        self._group[a] = self._group.get(b, b)

    def region(
        self, symbol: str, offset: int, dtype: str, shape: list[int], memory: str = "arena"
    ) -> None:
        """Says where in the arena, or in GSM, ``symbol`` lies; offset in bytes."""
        self._regions[symbol] = memory, offset, offset + prod(shape) * ELEMENT_BYTES[dtype]

    def same(self, a: str, b: str) -> bool:
        """Whether both start at the same address, as far as is known."""
        if a in self._regions and b in self._regions:
            return self._regions[a] == self._regions[b]
        return self._group.get(a, a) == self._group.get(b, b)

    def may_meet(self, a: str, b: str) -> bool:
        """Whether the two buffers may have bytes in common."""
        if a in self._regions and b in self._regions:
            (a_memory, a_low, a_high), (b_memory, b_low, b_high) = (
                self._regions[a],
                self._regions[b],
            )
            return a_memory == b_memory and a_low < b_high and b_low < a_high
        return self.same(a, b)


def overlap(kernel: TileKernel, machine: MachineParameters, places: SlotPlaces) -> None:
    """Pipelines every loop of the kernel where it is safe and fits, innermost loops first."""
    everywhere = _uses(kernel.body)  # of tiles that are no rings: of these nothing is added
    for parent, loop in list(_loops(kernel.body)):
        if any(i.kind in ("barrier", "call") for i in instructions(loop.body)) or _trips_once(
            kernel.indices, loop
        ):
            continue
        counter, inside = kernel.indices.of(loop.variable), _uses(loop.body)
        confined = {tile for tile, count in inside.items() if count == everywhere[tile]}
        for load in [s for s in loop.body if isinstance(s, TileInstruction) and s.kind == "load"]:
            if _prefetchable(loop, load, confined, places):
                _attempt(
                    kernel,
                    machine,
                    parent,
                    loop,
                    partial(_prefetch, kernel, parent, loop, load, counter),
                )
        for tile in _stored(loop, confined):
            _attempt(kernel, machine, parent, loop, partial(_ring, loop, tile, 2, counter))


def _loops(block: Block) -> Iterator[tuple[Block, TileLoop]]:
    """Every loop with the block that holds it, inner ones first."""
    for statement in block:
        if isinstance(statement, TileLoop):
            yield from _loops(statement.body)
            yield block, statement
        elif isinstance(statement, TileBranch):
            yield from _loops(statement.body)
            yield from _loops(statement.otherwise)


def _trips_once(indices: IndexFactory, loop: TileLoop) -> bool:
    return indices.sub(loop.upper, loop.lower).high <= 1


# --- safety
# ---------------------------------------------------------------------------------------------


def _uses(block: Block) -> Counter[TileDecl]:
    """How often tiles are touched in a block."""
    return Counter(slot.tile for i in instructions(block) for slot in i.slots())


def _prefetchable(
    loop: TileLoop, load: TileInstruction, confined: set[TileDecl], places: SlotPlaces
) -> bool:
    """Whether the load may be issued one iteration early. confined: tiles that nothing outside of
    the loop touches."""
    tile = load.writes[0].tile
    users = [i for i in instructions(loop.body) if any(slot.tile is tile for slot in i.slots())]
    if tile.depth != 1 or users[0] is not load or tile not in confined:
        return False
    if any(slot.tile is tile for user in users[1:] for slot in user.writes):
        return False
    if not all(_known_early(use.expr, loop) for use in load.parts if isinstance(use, IndexUse)):
        return False
    assert load.transfer is not None
    earlier = True
    for other in instructions(loop.body):
        earlier = earlier and other is not load
        written = other.transfer if other.kind in ("store", "scatter") else None
        if written is not None and places.may_meet(written.buffer, load.transfer.buffer):
            if earlier or not _steps_aside(load.transfer, written, loop, places):
                return False
    return True


def _known_early(expr: Expr, loop: TileLoop) -> bool:
    """Whether the expression needs nothing from inside the loop but its counter."""
    return all(_known_atom(atom, loop) for atom, _ in expr.terms)


def _known_atom(atom: Atom, loop: TileLoop) -> bool:
    if atom.operation == "var":
        return atom is loop.variable or atom.level < loop.variable.level
    return all(_known_early(arg, loop) for arg in atom.args)


def _steps_aside(load: Transfer, store: Transfer, loop: TileLoop, places: SlotPlaces) -> bool:
    """Whether a store of one iteration cannot touch what the next one loads: both walk the same
    blocks, one behind or beside another."""
    same = (
        load.offset is store.offset
        and load.extents == store.extents
        and load.strides == store.strides
    )
    growth = load.offset.coefficient(loop.variable)
    if not same or not places.same(load.buffer, store.buffer) or not growth:
        return False
    return growth >= load.span or _lie_beside(load, growth)


def _lie_beside(block: Transfer, step: int) -> bool:
    """Whether a block and the one ``step`` elements on lie beside each other in rows, a pitch
    apart, that are longer than both."""
    extents = [extent.high for extent in block.extents]
    if any(isinstance(number, SymInt) for number in (step, *block.strides, *extents)):
        return False
    dims = [
        (stride, extent)
        for stride, extent in zip(block.strides, extents, strict=True)
        if extent > 1
    ]
    pitch = min((stride for stride, _ in dims if stride > step), default=0)
    if pitch == 0 or any(stride <= 0 or (stride >= pitch and stride % pitch) for stride, _ in dims):
        return False
    width = 1 + sum((extent - 1) * stride for stride, extent in dims if stride < pitch)
    return 0 < width <= step and step + width <= pitch


def _stored(loop: TileLoop, confined: set[TileDecl]) -> list[TileDecl]:
    """Tiles that each iteration sets anew and stores."""
    found = []
    for statement in loop.body:
        if isinstance(statement, TileInstruction) and statement.kind == "store":
            tile = statement.reads[0].tile
            users = [
                i for i in instructions(loop.body) if any(slot.tile is tile for slot in i.slots())
            ]
            fresh = all(slot.tile is not tile for slot in users[0].reads) and _always_runs(
                loop.body, users[0]
            )
            if tile.depth == 1 and fresh and tile not in found and tile in confined:
                found.append(tile)
    return found


def _always_runs(block: Block, instruction: TileInstruction) -> bool:
    """Whether every iteration executes ``instruction`` itself: it is no part of a branch or an
    inner loop."""
    return any(statement is instruction for statement in block)


# --- transformation
# -------------------------------------------------------------------------------------


def _attempt(
    kernel: TileKernel,
    machine: MachineParameters,
    parent: Block,
    loop: TileLoop,
    change: Callable[[], None],
) -> None:
    """Makes a change, and takes it back if the tiles no longer fit."""
    before, body, depths = list(parent), loop.body, [tile.depth for tile in kernel.tiles]
    change()
    if not allocate_scratchpad.fits(kernel, machine):
        parent[:], loop.body = before, body
        for tile, depth in zip(kernel.tiles, depths, strict=True):
            tile.depth = depth


def _prefetch(
    kernel: TileKernel, parent: Block, loop: TileLoop, load: TileInstruction, counter: Expr
) -> None:
    indices, tile = kernel.indices, load.writes[0].tile
    stored = any(i.kind == "store" and i.reads[0].tile is tile for i in instructions(loop.body))
    _ring(loop, tile, 3 if stored else 2, counter)
    issue = next(
        s
        for s in loop.body
        if isinstance(s, TileInstruction) and s.kind == "load" and s.writes[0].tile is tile
    )
    following = indices.add(indices.of(loop.variable), indices.constant(1))
    ahead = _renamed(indices, issue, loop.variable, following)
    rest = [statement for statement in loop.body if statement is not issue]
    at = _behind_copies(rest)
    loop.body = [
        *rest[:at],
        TileBranch(indices.compare("lt", following, loop.upper), [ahead], []),
        *rest[at:],
    ]
    first = _renamed(indices, issue, loop.variable, loop.lower)
    runs = indices.compare("lt", loop.lower, loop.upper)
    parent.insert(
        _position(parent, loop), first if runs.constant else TileBranch(runs, [first], [])
    )


def _behind_copies(block: Block) -> int:
    """Where in a loop's body the next iteration's loads are started: behind the copies on chip that
    this one's maps and products wait for, as an engine takes transfers in order; what is only
    turned comes before these copies."""
    last = 0
    for at, statement in enumerate(block):
        if isinstance(statement, TileInstruction) and statement.kind == "copy":
            last = at + 1
        elif (
            isinstance(statement, TileInstruction)
            and statement.kind == "compute"
            and not str(statement.parts[0]).startswith("TRANS")
        ):
            break
    return last


def _position(block: Block, statement: TileLoop) -> int:
    return next(at for at, other in enumerate(block) if other is statement)


def _renamed(
    indices: IndexFactory, load: TileInstruction, variable: Atom, value: Expr
) -> TileInstruction:
    """The load with another value for the loop's counter."""

    def new(part: str | IndexUse | Slot) -> str | IndexUse | Slot:
        if isinstance(part, IndexUse):
            return IndexUse(indices.substitute(part.expr, variable, value), part.address)
        return moved_slot(part) if isinstance(part, Slot) else part

    def moved_slot(slot: Slot) -> Slot:
        return Slot(slot.tile, indices.substitute(slot.index, variable, value))

    parts = [new(part) for part in load.parts]
    transfer = load.transfer
    assert transfer is not None
    moved = replace(
        transfer,
        offset=indices.substitute(transfer.offset, variable, value),
        extents=tuple(indices.substitute(e, variable, value) for e in transfer.extents),
    )
    return replace(
        load, parts=parts, writes=[moved_slot(slot) for slot in load.writes], transfer=moved
    )


def _ring(loop: TileLoop, tile: TileDecl, depth: int, counter: Expr) -> None:
    """Makes the tile a ring whose slot is the iteration."""
    tile.depth = depth
    loop.body = _with_slot(loop.body, tile, counter)


def _with_slot(block: Block, tile: TileDecl, index: Expr) -> Block:
    """The block with another slot of the tile; the same one if it does not touch the tile."""

    def new(slot: Slot) -> Slot:
        return Slot(tile, index) if slot.tile is tile else slot

    result: Block = []
    for statement in block:
        if isinstance(statement, TileInstruction):
            if any(slot.tile is tile for slot in statement.slots()):
                statement = replace(
                    statement,
                    parts=[
                        new(part) if isinstance(part, Slot) else part for part in statement.parts
                    ],
                    reads=[new(slot) for slot in statement.reads],
                    writes=[new(slot) for slot in statement.writes],
                )
        elif isinstance(statement, TileLoop):
            body = _with_slot(statement.body, tile, index)
            if body is not statement.body:
                statement = replace(statement, body=body)
        else:
            body, otherwise = (
                _with_slot(inner, tile, index) for inner in (statement.body, statement.otherwise)
            )
            if body is not statement.body or otherwise is not statement.otherwise:
                statement = replace(statement, body=body, otherwise=otherwise)
        result.append(statement)
    return block if all(map(operator.is_, result, block)) else result
