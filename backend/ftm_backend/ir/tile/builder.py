"""Writes kernels at the tile level: the helper that every lowering uses.

Wherever an index is wanted it takes a Python integer or an ``Expr``, folds what it can, and gives
the same kind back. Map bodies are written in ``ir.linalg.function.Node``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import inf, prod

from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.index_arithmetic import Index
from ftm_backend.ir.tile.index_expr import Expr, IndexFactory, greatest
from ftm_backend.ir.tile.kernel_tree import (
    Block,
    Parts,
    Slot,
    SlotUse,
    TileBranch,
    TileDecl,
    TileInstruction,
    TileKernel,
    TileLoop,
)
from ftm_backend.ir.tile.map_body_builder import BodyWriter, ElementError
from ftm_backend.ir.tile.map_op_selection import RULES
from ftm_backend.ir.tile.operands import BufferAddress, OperandWriter, PaddedAddress
from ftm_backend.symbolic import never_negative, upper_bound
from ftm_backend.target.presets import ELEMENT_BYTES

__all__ = ["BufferAddress", "Index", "Mapped", "PaddedAddress", "TileBuilder"]

SPACES = ("am", "sm", "gsm")

_ACCESS = {"full": "", "row": ".row", "col": ".col", "one": ".one"}


Mapped = tuple[TileDecl, Index, str]
"""A tile of a map, its slot, and how it is accessed: an input's ``full row col one``, or an
output's result."""


class TileBuilder(OperandWriter):
    """Builds the kernel ``kernel``, statement after statement.

    buffers: the parameter that stands for a symbol, and the element that it starts at. scalars: the
        same of runtime scalars.
    """

    def __init__(
        self,
        name: str,
        buffers: Mapping[str, tuple[str, int]] | None = None,
        scalars: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(IndexFactory())
        self.kernel = TileKernel(name, self._indices, [], [])
        self._buffers, self._scalars = buffers, scalars or {}
        self._block: Block = self.kernel.body
        self._level = 0
        self._loaded = 0

    # --- declarations
    # -----------------------------------------------------------------------------------

    def buffer(self, symbol: str, dtype: str, elements: int) -> BufferAddress:
        """The DDR buffer ``symbol``."""
        if self._buffers is None:
            return BufferAddress(symbol, dtype, elements)
        name, start = self._buffers[symbol]
        return BufferAddress(name, dtype, elements, start)

    def tile(self, dtype: str, rows: int, cols: int, space: str = "am", depth: int = 1) -> TileDecl:
        """A new ring of ``depth`` tiles of at most ``rows`` x ``cols`` in ``am``, ``sm`` or
        ``gsm``."""
        if space not in SPACES:
            raise ValueError(f"a tile cannot lie in {space!r}: use am, sm or gsm")
        if rows < 1 or cols < 1 or depth < 1:
            raise ValueError(
                f"a tile needs at least one row, column and slot, not {rows}x{cols}, depth {depth}"
            )
        depth = upper_bound(depth)
        made = TileDecl(
            f"T{len(self.kernel.tiles)}", space, dtype, rows, cols, depth, ELEMENT_BYTES[dtype]
        )
        self.kernel.tiles.append(made)
        return made

    def scalar(self, symbol: str, dtype: str) -> Node:
        """The runtime scalar ``symbol`` (``f64`` or ``i64``), for map bodies."""
        return Node("scalar", dtype, payload=symbol)

    def core_id(self) -> Expr:
        """The number of this core, from 0."""
        return self._indices.of(self._indices.core)

    def num_cores(self) -> Expr:
        """How many cores run the program."""
        return self._indices.of(self._indices.cores)

    def load_index(self, buffer: BufferAddress, offset: Index) -> Expr:
        """The integer at ``buffer[offset]`` as an index, for addresses that depend on data."""
        self._loaded += 1
        loaded = self._indices.variable(f"m{self._loaded}", self._level, -inf, inf)
        parts = ["SLDI ", *self._address(buffer, offset), ", "]
        self._block.append(
            TileInstruction("index", parts, result=loaded, from_memory=(buffer.symbol,))
        )
        return self._indices.of(loaded)

    # --- control
    # ----------------------------------------------------------------------------------------

    @contextmanager
    def for_(self, lower: Index, upper: Index, step: Index = 1) -> Iterator[Index]:
        """A loop; gives its counter. A loop of one known trip is its body, with an integer for
        counter.

        step: at least 1.
        """
        if (
            not isinstance(lower, Expr)
            and not isinstance(upper, Expr)
            and not isinstance(step, Expr)
        ):
            if never_negative(upper - lower - 1) and never_negative(lower + step - upper):
                yield lower
                return
        first, end = self.expr(lower), self.expr(upper)
        if step != 1:  # counters count iterations, so that their bounds are exact
            end = self.expr(self.div(self.add(self.sub(upper, lower), self.sub(step, 1)), step))
            first = self.expr(0)
        outside = self._block
        self._level += 1
        counter = self._indices.variable(
            f"i{self._level}", self._level, first.low, greatest(first.low, end.high - 1)
        )
        loop = TileLoop(counter, first, end, [])
        self._block = loop.body
        value: Index = self._indices.of(counter)
        yield value if step == 1 else self.add(lower, self.mul(value, step))
        self._block = outside
        self._level -= 1
        outside.append(loop)

    @contextmanager
    def if_(self, condition: Expr) -> Iterator[None]:
        """What is built inside happens only where ``condition`` is not 0."""
        outside = self._block
        branch = TileBranch(condition, [], [])
        self._block = branch.body
        self._level += 1
        yield
        self._block = outside
        self._level -= 1
        outside.append(branch)

    @contextmanager
    def where(self, *conditions: tuple[str, Index, Index]) -> Iterator[None]:
        """What is built inside happens only where all these comparisons hold, as `compare` takes
        them."""
        with ExitStack() as branches:
            for condition in conditions:
                branches.enter_context(self.if_(self.compare(*condition)))
            yield

    def barrier(self) -> None:
        """All cores wait here for each other and for their DMA."""
        self._block.append(TileInstruction("barrier", ["BARRIER"]))

    def call(self, function: str, arguments: Sequence[tuple[str, Index] | str] = ()) -> None:
        """Runs another function. arguments: buffers with the element that a parameter starts at,
        then scalars."""
        parts: Parts = [f"@call {function}"]
        for argument in arguments:
            if isinstance(argument, str):
                parts.append(f", {argument}")
            else:
                symbol, start = argument
                parts += [f", {symbol}[", SlotUse(self.expr(start), address=True), "]"]
        self._block.append(TileInstruction("call", parts))

    # --- data movement
    # ----------------------------------------------------------------------------------

    def load(
        self,
        buffer: BufferAddress,
        offset: Index,
        tile: TileDecl,
        slot: Index,
        extents: Sequence[Index],
        strides: Sequence[int],
        row_dims: int,
        border: Sequence[PaddedAddress] = (),
    ) -> None:
        """DMA of a strided block into ``tile[slot]``.

        offset, strides: in elements of the buffer. The first ``row_dims`` extents make the tile's
        rows, the others its columns; a stride of 0 repeats. With a ``border`` around the buffer's
        innermost dimensions, outermost first, offset and strides are those of a buffer that has it.
        """
        target = self._slot(tile, slot)
        dims, transfer = self._dims(buffer, offset, extents, strides, row_dims)
        if border:
            steps = [prod(side.whole for side in border[k + 1 :]) for k in range(len(border))]
            sides = " | ".join(
                (
                    " ".join(f"{side.inside}@{side.before}" for side in border),
                    " ".join(
                        f"{side.whole}@{step}" for side, step in zip(border, steps, strict=True)
                    ),
                )
            )
            parts = ["DLB ", *self._address(buffer, offset), ", ", *dims, f", {sides}, ", target]
            self._block.append(
                TileInstruction("load", parts, writes=[target], transfer=self._anywhere(buffer))
            )
            return
        parts = ["DLD ", *self._address(buffer, offset), ", ", *dims, ", ", target]
        self._block.append(TileInstruction("load", parts, writes=[target], transfer=transfer))

    def store(
        self,
        tile: TileDecl,
        slot: Index,
        buffer: BufferAddress,
        offset: Index,
        extents: Sequence[Index],
        strides: Sequence[int],
        row_dims: int,
    ) -> None:
        """DMA of ``tile[slot]`` into a strided block."""
        source = self._slot(tile, slot)
        dims, transfer = self._dims(buffer, offset, extents, strides, row_dims)
        parts = ["DST ", source, ", ", *self._address(buffer, offset), ", ", *dims]
        self._block.append(TileInstruction("store", parts, reads=[source], transfer=transfer))

    def load_rows(
        self,
        buffer: BufferAddress,
        offset: Index,
        indices: TileDecl,
        indices_slot: Index,
        tile: TileDecl,
        slot: Index,
        row_stride: int,
        columns: Index,
    ) -> None:
        """DMA gather: row i is the ``columns`` elements at ``offset + indices[i] * row_stride``."""
        index, target = self._slot(indices, indices_slot), self._slot(tile, slot)
        parts = [
            "DGA ",
            *self._address(buffer, offset),
            ", ",
            index,
            f", {row_stride} | ",
            SlotUse(self.expr(columns)),
            "@1, ",
            target,
        ]
        self._block.append(
            TileInstruction(
                "gather", parts, reads=[index], writes=[target], transfer=self._anywhere(buffer)
            )
        )

    def store_rows(
        self,
        tile: TileDecl,
        slot: Index,
        indices: TileDecl,
        indices_slot: Index,
        buffer: BufferAddress,
        offset: Index,
        row_stride: int,
        columns: Index,
        reduce: str = "set",
    ) -> None:
        """DMA scatter of ``columns`` elements of each row, in row order; ``reduce``: set, add, mul,
        min or max."""
        index, source = self._slot(indices, indices_slot), self._slot(tile, slot)
        name = "DSC" + ("" if reduce == "set" else f".{reduce.upper()}")
        parts = [
            f"{name} ",
            source,
            ", ",
            index,
            ", ",
            *self._address(buffer, offset),
            f", {row_stride} | ",
            SlotUse(self.expr(columns)),
            "@1",
        ]
        self._block.append(
            TileInstruction(
                "scatter", parts, reads=[source, index], transfer=self._anywhere(buffer)
            )
        )

    # --- computing
    # --------------------------------------------------------------------------------------

    def mm(
        self,
        a: TileDecl,
        a_slot: Index,
        b: TileDecl,
        b_slot: Index,
        c: TileDecl,
        c_slot: Index,
        *,
        acc: bool = False,
        trans_a: bool = False,
        trans_b: bool = False,
    ) -> None:
        """``c (+)= a . b`` on the current extents of the tiles; ``acc`` accumulates."""
        x, y, z = self._slot(a, a_slot), self._slot(b, b_slot), self._slot(c, c_slot)
        name = "MM" + ".TA" * trans_a + ".TB" * trans_b + ".ACC" * acc
        self._compute([f"{name} ", x, ", ", y, ", ", z], [x, y, z] if acc else [x, y], [z])

    def windows(
        self,
        a: TileDecl,
        a_slot: Index,
        extents: Sequence[Index],
        strides: Sequence[Index],
        row_dims: int,
        b: TileDecl,
        b_slot: Index,
        c: TileDecl,
        c_slot: Index,
        *,
        acc: bool = False,
    ) -> None:
        """``c (+)= a' . b``, where a' is read in place: its first ``row_dims`` dimensions make its
        rows, the others its columns.

        strides: in elements of the slot's memory, whose rows are ``a.columns`` apart.
        """
        x, y, z = self._slot(a, a_slot), self._slot(b, b_slot), self._slot(c, c_slot)
        parts = [
            "MMW.ACC " if acc else "MMW ",
            x,
            ", ",
            *self._in_place(extents, strides, row_dims),
            ", ",
            y,
            ", ",
            z,
        ]
        self._compute(parts, [x, y, z] if acc else [x, y], [z])

    def copy_windows(
        self,
        x: TileDecl,
        x_slot: Index,
        extents: Sequence[Index],
        strides: Sequence[Index],
        row_dims: int,
        y: TileDecl,
        y_slot: Index,
    ) -> None:
        """DMA into another tile of what ``windows`` reads in place: the first ``row_dims``
        dimensions make the rows of ``y``."""
        source, target = self._slot(x, x_slot), self._slot(y, y_slot)
        parts = ["DCW ", source, ", ", *self._in_place(extents, strides, row_dims), ", ", target]
        self._block.append(TileInstruction("copy", parts, reads=[source], writes=[target]))

    def copy(self, x: TileDecl, x_slot: Index, y: TileDecl, y_slot: Index) -> None:
        """DMA of one tile into another of the same element type, as from GSM to AM."""
        source, target = self._slot(x, x_slot), self._slot(y, y_slot)
        self._block.append(
            TileInstruction("copy", ["DCP ", source, ", ", target], reads=[source], writes=[target])
        )

    def transpose(
        self, x: TileDecl, x_slot: Index, y: TileDecl, y_slot: Index, *, zipped: bool = False
    ) -> None:
        """``y[j][i] = x[i][j]`` over the current extents of ``x``, which must not share memory with
        ``y``.

        zipped: ``y[j][2 * i + r] = x[i][r * columns / 2 + j]``.
        """
        source, target = self._slot(x, x_slot), self._slot(y, y_slot)
        self._compute(
            ["TRANS.ZIP " if zipped else "TRANS ", source, ", ", target], [source], [target]
        )

    def fold(
        self,
        x: TileDecl,
        x_slot: Index,
        extents: Sequence[Index],
        strides: Sequence[Index],
        y: TileDecl,
        y_slot: Index,
    ) -> None:
        """``FOLD``: sums what windows hold, a row of ``x`` for each channel and tap, at the places
        that they see.

        extents, strides: a third each: taps and their distance, windows and theirs, sizes of the
        image and what lies before it.
        """
        source, target = self._slot(x, x_slot), self._slot(y, y_slot)
        parts = [
            "FOLD ",
            source,
            ", ",
            *self._in_place(extents, strides, len(extents) // 3),
            ", ",
            target,
        ]
        self._compute(parts, [source], [target])

    def scan(
        self,
        kind: str,
        x: TileDecl,
        x_slot: Index,
        carry: TileDecl,
        carry_slot: Index,
        y: TileDecl,
        y_slot: Index,
        *,
        down: bool = False,
    ) -> None:
        """Running combination of the rows (``down``: columns) of ``x`` into ``y``, which may be
        ``x``, from ``carry`` on.

        ``carry`` is a tile of f64 for floats and of i64 for others; it is left with the totals.
        """
        source, total, target = (
            self._slot(x, x_slot),
            self._slot(carry, carry_slot),
            self._slot(y, y_slot),
        )
        name = f"SCAN.{kind.upper()}" + ".DOWN" * down
        self._compute(
            [f"{name} ", source, ", ", total, ", ", target], [source, total], [target, total]
        )

    def sort(self, x: TileDecl, x_slot: Index, y: TileDecl, y_slot: Index) -> None:
        """Sorts each row of ``x``, of i64, into ``y``, which may be ``x``; a narrower ``y`` takes
        the least elements."""
        source, target = self._slot(x, x_slot), self._slot(y, y_slot)
        self._compute(["SORT ", source, ", ", target], [source], [target])

    def merge(
        self, a: TileDecl, a_slot: Index, b: TileDecl, b_slot: Index, y: TileDecl, y_slot: Index
    ) -> None:
        """Merges the sorted rows of ``a`` and ``b``, of i64, into ``y``."""
        first, second, target = self._slot(a, a_slot), self._slot(b, b_slot), self._slot(y, y_slot)
        self._compute(["MERGE ", first, ", ", second, ", ", target], [first, second], [target])

    def map(
        self,
        rows: Index,
        columns: Index,
        ins: Sequence[Mapped],
        outs: Sequence[Mapped],
        body: Callable[[Sequence[Node]], Sequence[Node]],
    ) -> None:
        """An elementwise body over ``rows`` x ``columns``.

        ins: tiles read, whole (``full``), one row repeated (``row``), one column repeated
        (``col``), or one element. outs: ``full``, or a reduction such as ``rsum`` (along each row),
        ``csum`` (down each column) or ``asum`` (all), with ``.acc`` to combine with what the tile
        holds. ``body`` is called once with the elements of ``ins`` and gives one node for each of
        ``outs``.
        """
        read, written = (
            [self._slot(t, s) for t, s, _ in ins],
            [self._slot(t, s) for t, s, _ in outs],
        )
        writer = BodyWriter(RULES, self._scalars)
        arguments = [Node("element", tile.dtype) for tile, _, _ in ins]
        parts: Parts = ["@map ", SlotUse(self.expr(rows)), " x ", SlotUse(self.expr(columns))]
        for slot, argument, (_, _, access) in zip(read, arguments, ins, strict=True):
            register = writer.register()
            writer.bind(argument, register)
            parts += [", ", slot, f":{register.text}{_ACCESS[access]}"]
        arrow = " -> "
        try:
            results = writer.run(list(body(arguments)))
        except ElementError as error:
            raise ElementError(f"{error}, in @{self.kernel.name}") from error
        for slot, (tile, _, word), node, register in zip(written, outs, *results, strict=True):
            if node.dtype != tile.dtype:
                raise ValueError(
                    f"a result of type {node.dtype} does not fit into a tile of {tile.dtype}"
                )
            parts += [arrow, slot, f":{register.text}" + ("" if word == "full" else f".{word}")]
            arrow = ", "
        parts += ["\n", *writer.parts("      "), "    @endmap"]
        combined = [
            slot for slot, (_, _, word) in zip(written, outs, strict=True) if word.endswith(".acc")
        ]
        self._block.append(
            TileInstruction(
                "compute", parts, [*read, *combined], written, from_memory=tuple(writer.gathers)
            )
        )

    def position(self, base: Index, row_step: Index, column_step: Index) -> Node:
        """In a map body: ``base + row * row_step + column * column_step`` as ``i64``."""
        return Node(
            "position",
            "i64",
            payload=tuple(SlotUse(self.expr(x)) for x in (base, row_step, column_step)),
        )

    def gather(self, buffer: BufferAddress, index: Node) -> Node:
        """In a map body: ``buffer[index]``, element by element; an index outside the buffer is a
        fault of the program."""
        if buffer.start:
            raise ValueError("a buffer that is addressed by data is bound whole")
        return Node("gather", buffer.dtype, (index,), buffer)

    def _compute(self, parts: Parts, reads: list[Slot], writes: list[Slot]) -> None:
        self._block.append(TileInstruction("compute", parts, reads, writes))
