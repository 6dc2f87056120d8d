"""Builder of tile IR, used by every lowering.

Wherever a parameter is an index it may be a Python integer or an `Expr`; results are folded and
have the same type. Map bodies are nodes of linalg IR (``ir.linalg.function.Node``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import inf, prod

from ftm_backend.ir.asm import program as p
from ftm_backend.ir.asm.map_operands import reduction
from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.index_arithmetic import Index
from ftm_backend.ir.tile.index_expr import Expr, IndexFactory, greatest
from ftm_backend.ir.tile.kernel_tree import (
    Address,
    Block,
    TileBranch,
    TileDecl,
    TileInstruction,
    TileKernel,
    TileLoop,
    TileOperand,
)
from ftm_backend.ir.tile.map_body_builder import BodyWriter, ElementError
from ftm_backend.ir.tile.map_op_selection import RULES
from ftm_backend.ir.tile.operands import BufferAddress, OperandWriter, PaddedDim
from ftm_backend.symbolic import statically_known_nonnegative, upper_bound
from ftm_backend.target.presets import ELEMENT_BYTES

__all__ = ["BufferAddress", "Index", "Mapped", "PaddedDim", "TileBuilder"]

SPACES = ("am", "sm", "gsm")


Mapped = tuple[TileDecl, Index, str]
"""An operand of a map: tile, slot, and access.

The access is ``full``, ``row``, ``col`` or ``one`` for an input, ``full`` or a reduction such as
``rsum.acc`` for an output.
"""


class TileBuilder(OperandWriter):
    """Builds one kernel, statement after statement.

    Args:
        name: Name of the kernel.
        buffers: For each buffer symbol, the parameter that stands for it and the element that the
            parameter starts at. None: symbols are global names.
        scalars: For each symbol of a runtime scalar, the parameter that stands for it.
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
        """Return the DDR buffer ``symbol`` of ``elements`` elements."""
        if self._buffers is None:
            return BufferAddress(symbol, dtype, elements)
        name, start = self._buffers[symbol]
        return BufferAddress(name, dtype, elements, start)

    def tile(self, dtype: str, rows: int, cols: int, space: str = "am", depth: int = 1) -> TileDecl:
        """Declare a ring of ``depth`` tiles of at most ``rows`` x ``cols``.

        Args:
            dtype: Element type.
            rows: Greatest number of rows.
            cols: Greatest number of columns.
            space: ``am``, ``sm`` or ``gsm``.
            depth: Number of slots.
        """
        if space not in SPACES:
            raise ValueError(f"a tile cannot lie in {space!r}: use am, sm or gsm")
        if rows < 1 or cols < 1 or depth < 1:
            raise ValueError(
                f"a tile needs at least one row, column and slot, not {rows}x{cols}, depth {depth}"
            )
        depth = upper_bound(depth)
        tile = TileDecl(
            f"T{len(self.kernel.tiles)}", space, dtype, rows, cols, depth, ELEMENT_BYTES[dtype]
        )
        self.kernel.tiles.append(tile)
        return tile

    def scalar(self, symbol: str, dtype: str) -> Node:
        """Return the runtime scalar ``symbol`` (``f64`` or ``i64``), for map bodies."""
        return Node("scalar", dtype, payload=symbol)

    def core_id(self) -> Expr:
        """Return the number of the executing core, from 0."""
        return self._indices.of(self._indices.core)

    def num_cores(self) -> Expr:
        """Return the number of cores that execute the program."""
        return self._indices.of(self._indices.cores)

    def load_index(self, buffer: BufferAddress, offset: Index) -> Expr:
        """Load the integer at ``buffer[offset]`` as an index, for data-dependent addresses."""
        self._loaded += 1
        loaded = self._indices.variable(f"m{self._loaded}", self._level, -inf, inf)
        self._emit("SLDI", self._address(buffer, offset), loaded)
        return self._indices.of(loaded)

    # --- control
    # ----------------------------------------------------------------------------------------

    @contextmanager
    def for_(self, lower: Index, upper: Index, step: Index = 1) -> Iterator[Index]:
        """Open a loop; the context's value is its counter.

        A loop of one iteration becomes just its body, with an integer for the counter. ``step`` is
        at least 1.
        """
        if (
            not isinstance(lower, Expr)
            and not isinstance(upper, Expr)
            and not isinstance(step, Expr)
        ):
            if statically_known_nonnegative(upper - lower - 1) and statically_known_nonnegative(
                lower + step - upper
            ):
                yield lower
                return
        first, end = self.expr(lower), self.expr(upper)
        if step != 1:  # the loop counts iterations, so that the counter's bounds are exact
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
        """Execute the statements inside only if ``condition`` is not 0."""
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
        """Execute the statements inside only if all comparisons hold; see `compare`."""
        with ExitStack() as branches:
            for condition in conditions:
                branches.enter_context(self.if_(self.compare(*condition)))
            yield

    def barrier(self) -> None:
        """Wait until all cores, and their DMA, have reached this point."""
        self._emit("BARRIER")

    def call(self, function: str, arguments: Sequence[tuple[str, Index] | str] = ()) -> None:
        """Call another function.

        Args:
            function: Its name.
            arguments: First (buffer symbol, element that the parameter starts at), then the names
                of scalars.
        """
        bound = (
            p.SymbolName(argument)
            if isinstance(argument, str)
            else Address(argument[0], self.expr(argument[1]))
            for argument in arguments
        )
        self._emit("@call", p.SymbolName(function), *bound)

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
        border: Sequence[PaddedDim] = (),
    ) -> None:
        """Load a strided block into ``tile[slot]`` by DMA.

        Args:
            buffer: The buffer to read.
            offset: First element.
            tile: The tile to write.
            slot: Its slot.
            extents: Extents of the block.
            strides: Strides of the block, in elements of the buffer; 0 repeats.
            row_dims: The first ``row_dims`` extents become the tile's rows, the others its columns.
            border: The innermost dimensions of the buffer, outermost first, if they are to be
                padded with zeros. Offset and strides are then those of the padded buffer.
        """
        target = self._slot(tile, slot)
        address, dims = self._address(buffer, offset), self._dims(extents, strides, row_dims)
        if not border:
            self._emit("DLD", address, dims, target)
            return
        expr = self.expr
        steps = [prod(dim.whole for dim in border[k + 1 :]) for k in range(len(border))]
        sides = p.Dims(
            tuple((expr(dim.inside), expr(dim.before)) for dim in border),
            tuple((expr(dim.whole), expr(step)) for dim, step in zip(border, steps, strict=True)),
        )
        self._emit("DLB", address, dims, sides, target)

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
        """Store ``tile[slot]`` to a strided block by DMA; the arguments are those of `load`."""
        dims = self._dims(extents, strides, row_dims)
        self._emit("DST", self._slot(tile, slot), self._address(buffer, offset), dims)

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
        """Gather rows by DMA: row i is ``columns`` elements from ``offset + indices[i] * stride``.

        ``indices`` is a tile of i64; ``row_stride`` is in elements.
        """
        index, target = self._slot(indices, indices_slot), self._slot(tile, slot)
        dims = self._rows(row_stride, columns)
        self._emit("DGA", self._address(buffer, offset), index, dims, target)

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
        """Scatter rows by DMA in row order; ``reduce`` is set, add, mul, min or max.

        The other arguments are those of `load_rows`.
        """
        index, source = self._slot(indices, indices_slot), self._slot(tile, slot)
        address, dims = self._address(buffer, offset), self._rows(row_stride, columns)
        suffixes = () if reduce == "set" else (reduce.upper(),)
        self._emit("DSC", source, index, address, dims, suffixes=suffixes)

    # --- compute
    # -------------------------------------------------------------------------------------------

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
        """Multiply tiles: ``c = a . b``, or ``c += a . b`` if ``acc``, on their current extents."""
        x, y, z = self._slot(a, a_slot), self._slot(b, b_slot), self._slot(c, c_slot)
        chosen = (("TA", trans_a), ("TB", trans_b), ("ACC", acc))
        self._emit("MM", x, y, z, suffixes=tuple(word for word, is_set in chosen if is_set))

    def mm_windows(
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
        """Multiply ``a'`` by ``b``, where ``a'`` is a strided view of ``a[a_slot]``.

        Example: a convolution multiplies the windows of a feature map without copying them.

        Args:
            a: The tile that holds the elements.
            a_slot: Its slot.
            extents: Extents of ``a'``.
            strides: Its strides, in elements of the slot, whose rows are ``a.columns`` apart.
            row_dims: The first ``row_dims`` dimensions are the rows of ``a'``, the others its
                columns.
            b: The second operand.
            b_slot: Its slot.
            c: The result.
            c_slot: Its slot.
            acc: Add to ``c`` instead of overwriting it.
        """
        x, y, z = self._slot(a, a_slot), self._slot(b, b_slot), self._slot(c, c_slot)
        dims = self._dims(extents, strides, row_dims)
        self._emit("MMW", x, dims, y, z, suffixes=("ACC",) if acc else ())

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
        """Copy a strided view of ``x[x_slot]`` into ``y[y_slot]`` by DMA.

        The view is given as in `mm_windows`; its first ``row_dims`` dimensions become the rows.
        """
        source, target = self._slot(x, x_slot), self._slot(y, y_slot)
        self._emit("DCW", source, self._dims(extents, strides, row_dims), target)

    def copy(self, x: TileDecl, x_slot: Index, y: TileDecl, y_slot: Index) -> None:
        """Copy a tile into another of the same element type by DMA, e.g. from GSM to AM."""
        self._emit("DCP", self._slot(x, x_slot), self._slot(y, y_slot))

    def transpose(self, x: TileDecl, x_slot: Index, y: TileDecl, y_slot: Index) -> None:
        """Transpose: ``y[j][i] = x[i][j]`` over the current extents of ``x``.

        ``x`` and ``y`` must not share memory.
        """
        self._emit("TRANS", self._slot(x, x_slot), self._slot(y, y_slot))

    def fold(
        self,
        x: TileDecl,
        x_slot: Index,
        extents: Sequence[Index],
        strides: Sequence[Index],
        y: TileDecl,
        y_slot: Index,
    ) -> None:
        """Sum windows into the feature map that they were cut from (col2im, instruction ``FOLD``).

        Args:
            x: One row per channel and filter tap; its columns are the windows.
            x_slot: Its slot.
            extents: Three groups of the same length: taps, windows, sizes of the feature map.
            strides: Likewise: dilation, stride, padding before the feature map.
            y: The feature map.
            y_slot: Its slot.
        """
        source, target = self._slot(x, x_slot), self._slot(y, y_slot)
        self._emit("FOLD", source, self._dims(extents, strides, len(extents) // 3), target)

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
        """Scan the rows of ``x`` (``down``: its columns) into ``y``, which may be ``x``.

        Args:
            kind: ``add``, ``mul``, ``min``, ``max`` or ``lse``.
            x: The tile to scan.
            x_slot: Its slot.
            carry: Initial values; receives the totals. f64 if ``x`` has floats, else i64.
            carry_slot: Its slot.
            y: The result.
            y_slot: Its slot.
            down: Scan along columns instead of rows.
        """
        source, total, target = (
            self._slot(x, x_slot),
            self._slot(carry, carry_slot),
            self._slot(y, y_slot),
        )
        suffixes = (kind.upper(), "DOWN") if down else (kind.upper(),)
        self._emit("SCAN", source, total, target, suffixes=suffixes)

    def sort(self, x: TileDecl, x_slot: Index, y: TileDecl, y_slot: Index) -> None:
        """Sort each row of ``x`` (i64) into ``y``, which may be ``x``.

        If ``y`` has fewer columns, it receives the smallest elements.
        """
        self._emit("SORT", self._slot(x, x_slot), self._slot(y, y_slot))

    def merge(
        self, a: TileDecl, a_slot: Index, b: TileDecl, b_slot: Index, y: TileDecl, y_slot: Index
    ) -> None:
        """Merge the sorted rows of ``a`` and ``b`` (i64) into ``y``."""
        first, second, target = self._slot(a, a_slot), self._slot(b, b_slot), self._slot(y, y_slot)
        self._emit("MERGE", first, second, target)

    def start_collective(
        self, target: BufferAddress, source: BufferAddress, kind: str, reduction: str, call: str
    ) -> None:
        """Start a collective on whole buffers.

        Args:
            target: The buffer of the result.
            source: The buffer with what this process contributes.
            kind: One of `COLLECTIVE_KINDS`, in lower case.
            reduction: ``add``, ``mul``, ``min``, ``max`` or ``avg``; "" if it does not reduce.
            call: Symbol of the runtime scalar with the number of the collective.
        """
        suffixes = tuple(word.upper() for word in (kind, reduction) if word)
        self._emit(
            "CSTART",
            self._address(target, 0),
            self.expr(target.elements),
            self._address(source, 0),
            self.expr(source.elements),
            self._collective(call),
            suffixes=suffixes,
        )

    def wait_for_collective(self, call: str) -> None:
        """Wait until a collective is complete; ``call`` is that of `start_collective`."""
        self._emit("CWAIT", self._collective(call))

    def _collective(self, call: str) -> p.SymbolName:
        return p.SymbolName(self._scalars.get(call, call))

    def map(
        self,
        rows: Index,
        columns: Index,
        ins: Sequence[Mapped],
        outs: Sequence[Mapped],
        body: Callable[[Sequence[Node]], Sequence[Node]],
    ) -> None:
        """Apply an elementwise body over ``rows`` x ``columns``.

        Args:
            rows: Number of rows.
            columns: Number of columns.
            ins: Tiles to read: elementwise (``full``), one row repeated (``row``), one column
                repeated (``col``), or one element (``one``).
            outs: Tiles to write: ``full``, or a reduction such as ``rsum`` (of each row), ``csum``
                (of each column) or ``asum`` (of all elements); with ``.acc`` it is combined with
                the content of the tile.
            body: Called once with the elements of ``ins``; returns one node for each of ``outs``.
        """
        writer = BodyWriter(RULES, self._scalars)
        arguments = [Node("element", tile.dtype) for tile, _, _ in ins]
        operands: list[TileOperand] = [self.expr(rows), self.expr(columns)]
        for argument, (tile, slot, access) in zip(arguments, ins, strict=True):
            register = writer.register()
            writer.bind(argument, register)
            operands.append(p.MapInput(self._slot(tile, slot), register.number, access))
        try:
            results = writer.run(list(body(arguments)))
        except ElementError as error:
            raise ElementError(f"{error}, in @{self.kernel.name}") from error
        for (tile, slot, word), node, register in zip(outs, *results, strict=True):
            if node.dtype != tile.dtype:
                raise ValueError(
                    f"a result of type {node.dtype} does not fit into a tile of {tile.dtype}"
                )
            reduced = () if word == "full" else reduction(word)
            operands.append(p.MapOutput(self._slot(tile, slot), register.number, *reduced))
        self._block.append(
            TileInstruction("@map", tuple(operands), body=tuple(writer.operations()))
        )

    def position(self, base: Index, row_step: Index, column_step: Index) -> Node:
        """Return the node ``base + row * row_step + column * column_step`` (i64) of a map body."""
        return Node(
            "position",
            "i64",
            payload=tuple(self.expr(x) for x in (base, row_step, column_step)),
        )

    def gather(self, buffer: BufferAddress, index: Node) -> Node:
        """Return the node ``buffer[index]`` of a map body.

        An index out of bounds is a fault of the program. The buffer must be bound from element 0.
        """
        if buffer.start:
            raise ValueError("a buffer that is addressed by data must be bound from its start")
        return Node("gather", buffer.dtype, (index,), buffer)

    def _emit(self, name: str, *operands: TileOperand, suffixes: tuple[str, ...] = ()) -> None:
        self._block.append(TileInstruction(name, operands, suffixes))
