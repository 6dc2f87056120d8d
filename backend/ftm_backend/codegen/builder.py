"""Writes tile-level operations: the helper that every kernel lowering uses.

A ``TileBuilder`` inserts where the current insertion point is.  Wherever an index is wanted it takes a Python
integer or an SSA value of type ``index``, folds what it can in Python, and gives the same kind back.
Constants, buffers, tiles and the core's number are placed at the top of the function, once each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ftm_backend import dialect
from ftm_backend.mlir import arith, func, ir, scf

__all__ = ["DTYPES", "Index", "TileBuilder", "element_type"]

Index = Any
"""A Python integer, or an SSA value of type ``index``."""

DTYPES = ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "i1")
"""Element types of tiles and buffers.  ``u8`` is ``i8`` in the IR: signedness lives in the operations."""


def element_type(dtype: str) -> ir.Type:
    """The MLIR type of a dtype token."""
    makers = {"f64": ir.F64Type, "f32": ir.F32Type, "f16": ir.F16Type, "bf16": ir.BF16Type}
    if dtype in makers:
        return makers[dtype].get()
    if dtype not in DTYPES:
        raise ValueError(f"{dtype!r} is not an element type of tiles: use one of {', '.join(DTYPES)}")
    return ir.IntegerType.get_signless(int(dtype[1:]))


class TileBuilder:
    """Builds the body of one ``func.func`` in tile-level operations.

    Make it with the insertion point at the start of the function's entry block.
    """

    def __init__(self) -> None:
        self._entry = ir.InsertionPoint.current.block
        self._index = ir.IndexType.get()
        self._i64 = ir.IntegerType.get_signless(64)
        self._once: dict[Any, Any] = {}
        self._attributes: dict[Any, ir.Attribute] = {}

    # --- values made once, at the top of the function ---------------------------------------------------

    def _top(self, key: Any, make: Callable[[], Any]) -> Any:
        """The value of ``make()``, made on first use of ``key`` at the start of the entry block."""
        value = self._once.get(key)
        if value is None:
            with ir.InsertionPoint.at_block_begin(self._entry):
                value = self._once[key] = make()
        return value

    def index(self, value: Index) -> ir.Value:
        """``value`` as an SSA value of type ``index``."""
        if not isinstance(value, int):
            return value
        return self._top(("index", value), lambda: arith.ConstantOp(self._index, value).result)

    def buffer(self, symbol: str, dtype: str, elements: int) -> ir.Value:
        """The DDR buffer ``symbol`` of the program, of ``elements`` elements."""
        return self._top(
            ("buffer", symbol),
            lambda: dialect.Buffer(
                ir.MemRefType.get([elements], element_type(dtype)), ir.StringAttr.get(symbol)
            ).result,
        )

    def tile(self, dtype: str, rows: int, cols: int, space: str = "am", depth: int = 1) -> ir.Value:
        """A new ring of ``depth`` tiles of at most ``rows`` x ``cols`` in ``am``, ``sm`` or ``gsm``."""
        if space not in ("am", "sm", "gsm"):
            raise ValueError(f"a tile cannot lie in {space!r}: use am, sm or gsm")
        if rows < 1 or cols < 1 or depth < 1:
            raise ValueError(f"a tile needs at least one row, column and slot, not {rows}x{cols}, depth {depth}")
        kind = ir.MemRefType.get(
            [rows, cols], element_type(dtype), memory_space=self._int(dialect.SPACES[space])
        )
        with ir.InsertionPoint.at_block_begin(self._entry):
            return dialect.Tile(kind, self._int(depth)).result

    def scalar(self, symbol: str, dtype: str) -> ir.Value:
        """The runtime scalar ``symbol`` (``f64`` or ``i64``), for map bodies."""
        return self._top(
            ("scalar", symbol), lambda: dialect.Scalar(element_type(dtype), ir.StringAttr.get(symbol)).result
        )

    def core_id(self) -> ir.Value:
        """The number of this core, from 0."""
        return self._top("core_id", lambda: dialect.CoreId(self._index).result)

    def num_cores(self) -> ir.Value:
        """How many cores run the program."""
        return self._top("num_cores", lambda: dialect.NumCores(self._index).result)

    # --- index arithmetic -------------------------------------------------------------------------------

    def add(self, a: Index, b: Index) -> Index:
        """``a + b``"""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(a, int):
            a, b = b, a
        if isinstance(b, int) and b == 0:
            return a
        return arith.AddIOp(a, self.index(b)).result

    def sub(self, a: Index, b: Index) -> Index:
        """``a - b``"""
        if isinstance(b, int):
            return self.add(a, -b)
        return arith.SubIOp(self.index(a), b).result

    def mul(self, a: Index, b: Index) -> Index:
        """``a * b``"""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if isinstance(a, int):
            a, b = b, a
        if isinstance(b, int) and b in (0, 1):
            return a if b else 0
        return arith.MulIOp(a, self.index(b)).result

    def div(self, a: Index, b: Index) -> Index:
        """``a / b``, rounded towards minus infinity."""
        if isinstance(b, int):
            if isinstance(a, int):
                return a // b
            if b == 1:
                return a
        return arith.FloorDivSIOp(self.index(a), self.index(b)).result

    def ceildiv(self, a: Index, b: int) -> Index:
        """``a / b``, rounded towards plus infinity; ``b`` positive."""
        return self.div(self.add(a, b - 1), b)

    def rem(self, a: Index, b: Index) -> Index:
        """``a`` modulo ``b``; ``a`` must not be negative."""
        if isinstance(b, int):
            if isinstance(a, int):
                return a % b
            if b == 1:
                return 0
        return arith.RemUIOp(self.index(a), self.index(b)).result

    def min(self, a: Index, b: Index) -> Index:
        """The smaller of two signed indices."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return arith.MinSIOp(self.index(a), self.index(b)).result

    def max(self, a: Index, b: Index) -> Index:
        """The larger of two signed indices."""
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return arith.MaxSIOp(self.index(a), self.index(b)).result

    def compare(self, predicate: str, a: Index, b: Index) -> ir.Value:
        """``a <predicate> b`` as ``i1``; predicate: eq ne lt le gt ge, signed."""
        number = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5}[predicate]
        return arith.CmpIOp(self._int(number), self.index(a), self.index(b)).result

    def load_index(self, buffer: ir.Value, offset: Index) -> ir.Value:
        """The integer at ``buffer[offset]`` as an index."""
        return dialect.LoadIndex(self._index, buffer, self.index(offset)).result

    # --- control ----------------------------------------------------------------------------------------

    @contextmanager
    def for_(self, lower: Index, upper: Index, step: Index = 1) -> Iterator[Index]:
        """A loop; gives its counter.  A loop of one known trip is its body, with an integer for counter."""
        known = all(isinstance(bound, int) for bound in (lower, upper, step))
        if known and lower < upper <= lower + step:
            yield lower
            return
        loop = scf.ForOp(self.index(lower), self.index(upper), self.index(step))
        with ir.InsertionPoint(loop.body):
            yield loop.induction_variable
            scf.YieldOp([])

    @contextmanager
    def if_(self, condition: ir.Value) -> Iterator[None]:
        """What is built inside happens only where ``condition`` (``i1``) holds."""
        branch = scf.IfOp(condition)
        with ir.InsertionPoint(branch.then_block):
            yield
            scf.YieldOp([])

    def divide(self, trips: Index) -> tuple[Index, Index]:
        """This core's share ``[lower, upper)`` of ``range(trips)``: contiguous, even to within one."""
        if isinstance(trips, int) and trips == 0:
            return 0, 0
        core, cores = self.core_id(), self.num_cores()
        return self.div(self.mul(core, trips), cores), self.div(self.mul(self.add(core, 1), trips), cores)

    def barrier(self) -> None:
        """All cores wait here for each other and for their DMA."""
        dialect.Barrier()

    def call(self, function: str) -> None:
        """Runs another function of the module."""
        func.CallOp([], ir.FlatSymbolRefAttr.get(function), [])

    # --- data movement ----------------------------------------------------------------------------------

    def load(self, buffer: ir.Value, offset: Index, tile: ir.Value, slot: Index, extents: Sequence[Index],
             strides: Sequence[int], row_dims: int) -> None:
        """DMA of a strided block into ``tile[slot]``.

        offset, strides: in elements of the buffer.  The first ``row_dims`` extents make the tile's rows, the
        others its columns; a stride of 0 repeats.
        """
        static, dynamic = self._extents(extents, strides, row_dims)
        dialect.Load(
            buffer, self.index(offset), tile, self.index(slot), dynamic, self._int(row_dims),
            extents=self._ints(static), strides=self._ints(strides),
        )

    def store(self, tile: ir.Value, slot: Index, buffer: ir.Value, offset: Index, extents: Sequence[Index],
              strides: Sequence[int], row_dims: int, accumulate: bool = False) -> None:
        """DMA of ``tile[slot]`` into a strided block; ``accumulate`` adds to what the buffer holds."""
        static, dynamic = self._extents(extents, strides, row_dims)
        dialect.Store(
            tile, self.index(slot), buffer, self.index(offset), dynamic, self._int(row_dims),
            self._flag(accumulate), extents=self._ints(static), strides=self._ints(strides),
        )

    def load_rows(self, buffer: ir.Value, offset: Index, indices: ir.Value, indices_slot: Index, tile: ir.Value,
                  slot: Index, row_stride: int, columns: Index) -> None:
        """DMA gather: row i is the ``columns`` elements at ``offset + indices[i] * row_stride``."""
        dialect.LoadRows(
            buffer, self.index(offset), indices, self.index(indices_slot), tile, self.index(slot),
            self._int(row_stride), self.index(columns),
        )

    def store_rows(self, tile: ir.Value, slot: Index, indices: ir.Value, indices_slot: Index, buffer: ir.Value,
                   offset: Index, row_stride: int, columns: Index, reduce: str = "set") -> None:
        """DMA scatter of ``columns`` elements of each row, in row order; ``reduce``: set, add, mul, min or max."""
        dialect.StoreRows(
            tile, self.index(slot), indices, self.index(indices_slot), buffer, self.index(offset), self.index(columns),
            self._int(row_stride), ir.StringAttr.get(reduce),
        )

    def copy(self, x: ir.Value, x_slot: Index, y: ir.Value, y_slot: Index) -> None:
        """DMA of one tile into another of the same element type, as from GSM to AM."""
        dialect.CopyTile(x, self.index(x_slot), y, self.index(y_slot))

    # --- computing --------------------------------------------------------------------------------------

    def mm(self, a: ir.Value, a_slot: Index, b: ir.Value, b_slot: Index, c: ir.Value, c_slot: Index, *,
           acc: bool = False, trans_a: bool = False, trans_b: bool = False) -> None:
        """``c (+)= a . b`` on the current extents of the tiles; ``acc`` accumulates."""
        dialect.MatMul(
            a, self.index(a_slot), b, self.index(b_slot), c, self.index(c_slot),
            self._flag(acc), self._flag(trans_a), self._flag(trans_b),
        )

    def transpose(self, x: ir.Value, x_slot: Index, y: ir.Value, y_slot: Index) -> None:
        """``y[j][i] = x[i][j]`` over the current extents of ``x``, which must not share memory with ``y``."""
        dialect.TransposeTile(x, self.index(x_slot), y, self.index(y_slot))

    def scan(self, kind: str, x: ir.Value, x_slot: Index, carry: ir.Value, carry_slot: Index, y: ir.Value, y_slot: Index,
             *, down: bool = False) -> None:
        """Running combination along the rows of ``x``, or down its columns, into ``y``; see ``dialect.ScanTile``."""
        dialect.ScanTile(
            x, self.index(x_slot), carry, self.index(carry_slot), y, self.index(y_slot), ir.StringAttr.get(kind),
            self._flag(down),
        )

    def sort(self, x: ir.Value, x_slot: Index, y: ir.Value, y_slot: Index) -> None:
        """Sorts each row of ``x``, of i64, into ``y``, which may be ``x``; a narrower ``y`` takes the least elements."""
        dialect.SortTile(x, self.index(x_slot), y, self.index(y_slot))

    def merge(self, a: ir.Value, a_slot: Index, b: ir.Value, b_slot: Index, y: ir.Value, y_slot: Index) -> None:
        """Merges the sorted rows of ``a`` and ``b``, of i64, into ``y``."""
        dialect.MergeTile(a, self.index(a_slot), b, self.index(b_slot), y, self.index(y_slot))

    def map(self, rows: Index, columns: Index, ins: Sequence[tuple[ir.Value, Index, str]],
            outs: Sequence[tuple[ir.Value, Index, str]],
            body: Callable[[Sequence[ir.Value]], Sequence[ir.Value]]) -> None:
        """An elementwise body over ``rows`` x ``columns``.

        ins: (tile, slot, access), access one of full, row, col, one.  outs: (tile, slot, result), result
        ``full`` or a reduction such as ``rsum`` or ``csum.acc`` (see ``dialect.Map``).  ``body`` is called
        once with the elements of ``ins``, builds element operations, and returns one value for each of ``outs``.
        """
        operation = dialect.Map(
            self.index(rows), self.index(columns), [t for t, _, _ in ins], [self.index(s) for _, s, _ in ins],
            [t for t, _, _ in outs], [self.index(s) for _, s, _ in outs],
            access=self._words([w for _, _, w in ins]), results_=self._words([w for _, _, w in outs]),
        )
        block = operation.regions[0].blocks.append(*[t.type.element_type for t, _, _ in ins])
        with ir.InsertionPoint(block):
            dialect.Yield(list(body(list(block.arguments))))

    def position(self, base: Index, row_step: Index, column_step: Index) -> ir.Value:
        """In a map body: ``base + row * row_step + column * column_step`` as ``i64``."""
        return dialect.Position(
            self._i64, self.index(base), self.index(row_step), self.index(column_step)
        ).result

    # --- attributes -------------------------------------------------------------------------------------

    def _int(self, value: int) -> ir.Attribute:
        attribute = self._attributes.get(value)
        if attribute is None:
            attribute = self._attributes[value] = ir.IntegerAttr.get(self._i64, value)
        return attribute

    def _flag(self, value: bool) -> ir.Attribute:
        # Not a BoolAttr: the bindings take one that is false for a missing attribute.
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(1), int(value))

    def _ints(self, values: Sequence[int]) -> ir.Attribute:
        key = tuple(values)
        attribute = self._attributes.get(key)
        if attribute is None:
            attribute = self._attributes[key] = ir.DenseI64ArrayAttr.get(list(key))
        return attribute

    def _words(self, words: Sequence[str]) -> ir.Attribute:
        return ir.ArrayAttr.get([ir.StringAttr.get(word) for word in words])

    def _extents(self, extents: Sequence[Index], strides: Sequence[int], row_dims: int) -> tuple[list[int], list[Any]]:
        """The extents with -1 for those only known at run time, and the values of these."""
        if len(extents) != len(strides) or not 0 < row_dims < len(extents):
            raise ValueError(
                f"a transfer needs one stride for each extent and at least one row and one column dimension: "
                f"{len(extents)} extents, {len(strides)} strides, {row_dims} row dimensions"
            )
        static = [extent if isinstance(extent, int) else -1 for extent in extents]
        return static, [extent for extent in extents if not isinstance(extent, int)]
