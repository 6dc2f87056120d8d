"""Pass `multi-buffer`: overlap transfers with compute by rings of tiles.

Loads: if a loop body loads a tile that only this iteration uses, the next iteration's load is
issued before this iteration's compute, into the other slot of a ring (software pipelining), and
after this iteration's on-chip copies. Stores: a tile that is computed and stored becomes a ring, so
that the next iteration does not wait for the store.

A transformation applies only if it is safe (nothing in the loop may write the data that is loaded
early) and if the larger tiles still fit.

Changes the bodies and tiles of kernels.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import inf
from typing import NamedTuple

from ftm_backend.codegen import allocate_scratchpad
from ftm_backend.ir.asm import program as p
from ftm_backend.ir.tile.index_expr import Atom, Expr, IndexFactory
from ftm_backend.ir.tile.kernel_tree import (
    Address,
    Block,
    Slot,
    TileBranch,
    TileDecl,
    TileInstruction,
    TileKernel,
    TileLoop,
    instructions,
)
from ftm_backend.ir.tile.program import TileProgram
from ftm_backend.symbolic import SymInt
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters


class BufferAliases:
    """Alias analysis of DDR buffers: which of them may share memory."""

    def __init__(self) -> None:
        self._group: dict[str, str] = {}
        self._regions: dict[str, tuple[str, int, int]] = {}

    @staticmethod
    def of(program: TileProgram) -> BufferAliases:
        """Return the aliases of a program.

        They are outputs with donated inputs, and regions of the arena and of GSM.
        """
        aliases = BufferAliases()
        for output in program.buffers("out"):
            if output.alias:
                aliases.add_alias(output.name, output.alias)
        for region in (*program.buffers("arena"), *program.buffers("gsm")):
            aliases.add_region(region)
        return aliases

    def within(self, kernel: TileKernel) -> BufferAliases:
        """Return these aliases and those of the kernel's parameters."""
        if not kernel.parameters:
            return self
        aliases = BufferAliases()
        aliases._group, aliases._regions = dict(self._group), self._regions
        for parameter in kernel.parameters:
            if parameter.alias:
                aliases.add_alias(parameter.name, parameter.alias)
        return aliases

    def add_alias(self, a: str, b: str) -> None:
        """Declare that ``a`` may be the same memory as ``b``."""
        self._group[a] = self._group.get(b, b)

    def add_region(self, region: p.BufferDirective) -> None:
        """Declare a region of the arena or of GSM."""
        end = region.offset + region.elements * ELEMENT_BYTES[region.dtype]
        self._regions[region.name] = region.kind, region.offset, end

    def may_be_same(self, a: str, b: str) -> bool:
        """Whether both may be the same memory from the same address on."""
        if a in self._regions and b in self._regions:
            return self._regions[a] == self._regions[b]
        return self._group.get(a, a) == self._group.get(b, b)

    def may_overlap(self, a: str, b: str) -> bool:
        """Whether the two buffers may have bytes in common."""
        if a in self._regions and b in self._regions:
            (a_memory, a_low, a_high), (b_memory, b_low, b_high) = (
                self._regions[a],
                self._regions[b],
            )
            return a_memory == b_memory and a_low < b_high and b_low < a_high
        return self.may_be_same(a, b)


def overlap(kernel: TileKernel, machine: MachineParameters, aliases: BufferAliases) -> None:
    """Pipeline every loop of the kernel where it is safe and fits, innermost loops first.

    Args:
        kernel: Changed in place.
        machine: Its scratchpads bound the rings.
        aliases: Which buffers may share memory.
    """
    everywhere = _uses(kernel.body)  # stays right for tiles that are no rings
    for parent, loop in list(_loops(kernel.body)):
        if any(i.kind in ("barrier", "call") for i in instructions(loop.body)) or _trips_once(
            kernel.indices, loop
        ):
            continue
        counter, inside = kernel.indices.of(loop.variable), _uses(loop.body)
        confined = {tile for tile, count in inside.items() if count == everywhere[tile]}
        for load in [s for s in loop.body if isinstance(s, TileInstruction) and s.kind == "load"]:
            if _prefetchable(loop, load, confined, aliases):
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
    """Yield every loop with the block that contains it, inner ones first."""
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
    """Count the accesses of each tile in a block."""
    return Counter(slot.tile for i in instructions(block) for slot in i.slots())


def _prefetchable(
    loop: TileLoop, load: TileInstruction, confined: set[TileDecl], aliases: BufferAliases
) -> bool:
    """Whether the load may be issued one iteration early.

    ``confined`` are the tiles that nothing outside of the loop accesses.
    """
    tile = load.writes[0].tile
    return (
        tile.depth == 1
        and tile in confined
        and _is_only_writer(loop, load)
        and all(_available_early(number, loop) for number in _numbers(load))
        and not _reads_written_memory(loop, load, aliases)
    )


def _is_only_writer(loop: TileLoop, load: TileInstruction) -> bool:
    """Whether the load is the first access to its tile in the loop, and the only write."""
    tile = load.writes[0].tile
    users = [i for i in instructions(loop.body) if any(slot.tile is tile for slot in i.slots())]
    return users[0] is load and not any(
        slot.tile is tile for user in users[1:] for slot in user.writes
    )


def _reads_written_memory(loop: TileLoop, load: TileInstruction, aliases: BufferAliases) -> bool:
    """Whether the load would read, one iteration early, what the loop has still to write."""
    source = load.transferred
    assert source is not None
    earlier = True
    for other in instructions(loop.body):
        earlier = earlier and other is not load
        written = other.transferred if other.kind in ("store", "scatter") else None
        if written is not None and aliases.may_overlap(written, source):
            if earlier or not _are_disjoint(load, other, loop, aliases):
                return True
    return False


def _numbers(load: TileInstruction) -> Iterator[Expr]:
    """Yield the offset, extents and strides of a load."""
    for operand in load.operands:
        if isinstance(operand, Address):
            yield operand.offset
        elif isinstance(operand, p.Dims):
            yield from (number for pair in (*operand.rows, *operand.columns) for number in pair)


def _available_early(expr: Expr, loop: TileLoop) -> bool:
    """Whether the expression depends on nothing inside of the loop but its counter."""
    return all(_is_atom_available(atom, loop) for atom, _ in expr.terms)


def _is_atom_available(atom: Atom, loop: TileLoop) -> bool:
    if atom.operation == "var":
        return atom is loop.variable or atom.level < loop.variable.level
    return all(_available_early(arg, loop) for arg in atom.args)


class _MemoryBlock(NamedTuple):
    """The memory in DDR that a load or store of a strided block accesses.

    Attributes:
        buffer: Symbol of the buffer.
        offset: First element.
        dims: Extent and stride of all dimensions, in elements.
    """

    buffer: str
    offset: Expr
    dims: tuple[tuple[Expr, Expr], ...]

    @staticmethod
    def of(instruction: TileInstruction) -> _MemoryBlock | None:
        """Return the block; None if addresses depend on data or on padding."""
        if instruction.name not in ("DLD", "DST") or (address := instruction.address) is None:
            return None
        dims = instruction.dims
        return _MemoryBlock(address.buffer, address.offset, (*dims.rows, *dims.columns))

    @property
    def span(self) -> float:
        """Upper bound of the elements from the first to the last that it accesses."""
        reach = [(e.high - 1) * s.const if s.const > 0 else inf for e, s in self.dims if s.const]
        return sum(reach) + 1


def _are_disjoint(
    load: TileInstruction, store: TileInstruction, loop: TileLoop, aliases: BufferAliases
) -> bool:
    """Whether a store of one iteration cannot touch the data that the next iteration loads.

    True if both access the same blocks, and consecutive blocks are disjoint.
    """
    read, written = _MemoryBlock.of(load), _MemoryBlock.of(store)
    if read is None or written is None:
        return False
    growth = read.offset.coefficient(loop.variable)
    same = read.offset is written.offset and read.dims == written.dims
    if not same or not aliases.may_be_same(read.buffer, written.buffer) or not growth:
        return False
    return growth >= read.span or _are_side_by_side(read, growth)


def _are_side_by_side(block: _MemoryBlock, step: int) -> bool:
    """Whether a block and the one ``step`` elements later are different columns of the same rows.

    Rows are a pitch apart that exceeds the width of both blocks together.
    """
    dims = [(stride.const, extent.high) for extent, stride in block.dims]
    if any(isinstance(number, SymInt) for number in (step, *(n for dim in dims for n in dim))):
        return False
    dims = [(stride, extent) for stride, extent in dims if extent > 1]
    pitch = min((stride for stride, _ in dims if stride > step), default=0)
    if pitch == 0 or any(stride <= 0 or (stride >= pitch and stride % pitch) for stride, _ in dims):
        return False
    width = 1 + sum((extent - 1) * stride for stride, extent in dims if stride < pitch)
    return 0 < width <= step and step + width <= pitch


def _stored(loop: TileLoop, confined: set[TileDecl]) -> list[TileDecl]:
    """Return the tiles that each iteration overwrites and stores."""
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
    """Whether every iteration executes ``instruction``: it is in no branch or inner loop."""
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
    """Apply a change, and revert it if the tiles no longer fit."""
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
    body = [statement for statement in loop.body if statement is not issue]
    at = _after_copies(body)
    loop.body = [
        *body[:at],
        TileBranch(indices.compare("lt", following, loop.upper), [ahead], []),
        *body[at:],
    ]
    first = _renamed(indices, issue, loop.variable, loop.lower)
    runs = indices.compare("lt", loop.lower, loop.upper)
    parent.insert(
        _position(parent, loop), first if runs.constant else TileBranch(runs, [first], [])
    )


def _after_copies(block: Block) -> int:
    """Return where in a loop's body the next iteration's loads are issued.

    The DMA engine executes transfers in order, so loads come after the on-chip copies that this
    iteration's maps and products wait for. Transposes may precede these copies.
    """
    last = 0
    for at, statement in enumerate(block):
        if isinstance(statement, TileInstruction) and statement.kind == "copy":
            last = at + 1
        elif (
            isinstance(statement, TileInstruction)
            and statement.kind == "compute"
            and statement.name != "TRANS"
        ):
            break
    return last


def _position(block: Block, statement: TileLoop) -> int:
    return next(at for at, other in enumerate(block) if other is statement)


def _renamed(
    indices: IndexFactory, load: TileInstruction, variable: Atom, value: Expr
) -> TileInstruction:
    """Replace the loop's counter in a load."""

    def number(expr: Expr) -> Expr:
        return indices.substitute(expr, variable, value)

    return load.rewritten(lambda slot: Slot(slot.tile, number(slot.index)), number)


def _ring(loop: TileLoop, tile: TileDecl, depth: int, counter: Expr) -> None:
    """Make the tile a ring whose slot is the iteration."""
    tile.depth = depth
    loop.body = _with_slot(loop.body, tile, counter)


def _with_slot(block: Block, tile: TileDecl, index: Expr) -> Block:
    """Use slot ``index`` of the tile; returns ``block`` itself if it does not access the tile."""

    def new(slot: Slot) -> Slot:
        return Slot(tile, index) if slot.tile is tile else slot

    result: Block = []
    for statement in block:
        if isinstance(statement, TileInstruction):
            if any(slot.tile is tile for slot in statement.slots()):
                statement = statement.rewritten(new)
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
