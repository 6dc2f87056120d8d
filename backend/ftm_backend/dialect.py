"""The ``ftm`` dialect: the compiler's own operations, at two levels.

Tensor level (``ftm.view`` to ``ftm.kernel``) sits beside linalg: what upstream cannot say about strided
views, scatters, scans, sorts and groups of operations that share a loop nest.

Tile level (``ftm.buffer`` to ``ftm.philox``) is what a kernel becomes: tiles in scratchpad, DMA, matrix
products, scans, sorts, maps.  Control and address arithmetic are upstream's ``scf`` and ``arith`` on ``index``.  Each
tile-level operation is one instruction of the matrix assembly, or one ``@map`` block of it.

Operands that address a DDR buffer count in *elements* of that buffer.  A tile is a ``memref`` of static,
maximal extents in memory space 1 (AM), 2 (SM) or 3 (GSM); a *slot* operand selects one element of the
tile's ring, modulo its depth.
"""

import sys
from collections.abc import Sequence
from typing import Any

from ftm_backend.mlir import bindings, ext, ir

SPACES = {"ddr": 0, "am": 1, "sm": 2, "gsm": 3}
"""Memory space number of each address space, as in ``memref<..., space>`` and in `.lan` text."""


_INTEGERS = ext.attribute(default_factory=lambda: ir.DenseI64ArrayAttr.get([]))
_WORDS = ext.attribute(default_factory=lambda: ir.ArrayAttr.get([]))
# Array attributes are keyword arguments; the factories are there because the bindings take an empty array
# for a missing one.


class FTM(ext.Dialect, name="ftm"):
    """See the module's docstring."""


# --- tensor level -------------------------------------------------------------------------------------


class View(FTM.Operation, name="view"):
    """``result[i...] = flat(base)[offset + sum(i_k * strides_k)]``; the shape is the result's type.

    ``flat`` is the row-major flattening of ``base``.  Costs nothing: it becomes an access of its consumers.
    """

    result: ext.Result[Any]
    base: ext.Operand[Any]
    offset: ir.IntegerAttr
    strides: Any = _INTEGERS


class Update(FTM.Operation, name="update"):
    """``base`` with ``flat(base)[offset + sum(i_k * strides_k)] = value[i...]``; the result has base's type."""

    result: ext.Result[Any]
    base: ext.Operand[Any]
    value: ext.Operand[Any]
    offset: ir.IntegerAttr
    strides: Any = _INTEGERS


class Scatter(FTM.Operation, name="scatter"):
    """``dest[indices[i], :] (reduce)= updates[i, :]`` in the order of ``i``; the result has dest's type.

    dest: tensor<NxDxT>, indices: tensor<Mxi64> in [0, N), updates: tensor<MxDxT>.
    reduce: "set", "add", "mul", "min" or "max".
    """

    result: ext.Result[Any]
    dest: ext.Operand[Any]
    indices: ext.Operand[Any]
    updates: ext.Operand[Any]
    reduce: ir.StringAttr


class Scan(FTM.Operation, name="scan"):
    """``result[o, n, i]`` combines ``x[o, 0..n, i]``, in order; all are tensor<OxNxIxT>.

    kind: "add", "mul", "min", "max" or "lse" (log(exp(a) + exp(b)), floats only).  "min" and "max" are signed, propagate
    NaN and take the later of equals.
    """

    result: ext.Result[Any]
    x: ext.Operand[Any]
    kind: ir.StringAttr


class Sort(FTM.Operation, name="sort"):
    """The first K elements of each row of ``x`` in ascending order; x: tensor<RxNxi64>, result: tensor<RxKxi64>, K <= N."""

    result: ext.Result[Any]
    x: ext.Operand[Any]


class Kernel(FTM.Operation, name="kernel"):
    """A group of linalg operations that share one loop nest.

    The region's block arguments stand for ``ins`` in order (tensors or scalars); it ends in ``ftm.yield``
    of the values in ``outs``.  ``kind`` names the lowering that takes it: see ``midend``.
    """

    outs: Sequence[ext.Result[Any]]
    ins: Sequence[ext.Operand[Any]]
    kind: ir.StringAttr
    body: ext.Region


class Yield(FTM.Operation, name="yield", traits=[ir.IsTerminatorTrait]):
    """Ends the region of ``ftm.kernel`` or ``ftm.map``."""

    values: Sequence[ext.Operand[Any]]


# --- tile level ---------------------------------------------------------------------------------------


class Buffer(FTM.Operation, name="buffer"):
    """The DDR buffer called ``symbol`` in the program's header, as ``memref<NxT>``."""

    result: ext.Result[Any]
    symbol: ir.StringAttr


class Tile(FTM.Operation, name="tile"):
    """A ring of ``depth`` tiles; the type gives extents, element type and space."""

    result: ext.Result[Any]
    depth: ir.IntegerAttr


class Load(FTM.Operation, name="load"):
    """DMA: fills ``tile[slot]`` from ``buffer[offset + sum(i_k * strides_k)]``, row-major over ``extents``.

    The first ``row_dims`` extents make the tile's rows, the others its columns; an extent of -1 is taken
    from ``dynamic`` in order.  A stride of 0 repeats (broadcast).
    """

    buffer: ext.Operand[Any]
    offset: ext.Operand[Any]
    tile: ext.Operand[Any]
    slot: ext.Operand[Any]
    dynamic: Sequence[ext.Operand[Any]]
    row_dims: ir.IntegerAttr
    extents: Any = _INTEGERS
    strides: Any = _INTEGERS


class Store(FTM.Operation, name="store"):
    """DMA: the reverse of ``ftm.load``; ``accumulate`` adds to what the buffer holds."""

    tile: ext.Operand[Any]
    slot: ext.Operand[Any]
    buffer: ext.Operand[Any]
    offset: ext.Operand[Any]
    dynamic: Sequence[ext.Operand[Any]]
    row_dims: ir.IntegerAttr
    accumulate: Any
    extents: Any = _INTEGERS
    strides: Any = _INTEGERS


class LoadRows(FTM.Operation, name="load_rows"):
    """DMA gather: row i of ``tile[slot]`` is the ``columns`` elements at ``offset + indices[i] * row_stride``."""

    buffer: ext.Operand[Any]
    offset: ext.Operand[Any]
    indices: ext.Operand[Any]
    indices_slot: ext.Operand[Any]
    tile: ext.Operand[Any]
    slot: ext.Operand[Any]
    row_stride: ir.IntegerAttr
    columns: ext.Operand[Any]


class StoreRows(FTM.Operation, name="store_rows"):
    """DMA scatter: the reverse of ``ftm.load_rows``, in row order; ``reduce`` as in ``ftm.scatter``."""

    tile: ext.Operand[Any]
    slot: ext.Operand[Any]
    indices: ext.Operand[Any]
    indices_slot: ext.Operand[Any]
    buffer: ext.Operand[Any]
    offset: ext.Operand[Any]
    columns: ext.Operand[Any]
    row_stride: ir.IntegerAttr
    reduce: ir.StringAttr


class MatMul(FTM.Operation, name="mm"):
    """``C[MxN] (+)= A[MxK] . B[KxN]``; ``trans_a``: A is KxM, ``trans_b``: B is NxK; ``acc`` accumulates."""

    a: ext.Operand[Any]
    a_slot: ext.Operand[Any]
    b: ext.Operand[Any]
    b_slot: ext.Operand[Any]
    c: ext.Operand[Any]
    c_slot: ext.Operand[Any]
    acc: Any
    trans_a: Any
    trans_b: Any


class CopyTile(FTM.Operation, name="copy_tile"):
    """DMA: the current extents of ``x`` into ``y``, a tile of the same element type in another scratchpad."""

    x: ext.Operand[Any]
    x_slot: ext.Operand[Any]
    y: ext.Operand[Any]
    y_slot: ext.Operand[Any]


class TransposeTile(FTM.Operation, name="transpose_tile"):
    """``y[j][i] = x[i][j]`` over the current extents of ``x``; another tile of the same element type."""

    x: ext.Operand[Any]
    x_slot: ext.Operand[Any]
    y: ext.Operand[Any]
    y_slot: ext.Operand[Any]


class ScanTile(FTM.Operation, name="scan_tile"):
    """Running combination of the rows (``down``: columns) of ``x`` into ``y``, which may be ``x``, from ``carry`` on.

    ``carry`` is a tile of f64 for floats and of i64 for others; it is left with the totals.  kind: as in ``ftm.scan``.
    """

    x: ext.Operand[Any]
    x_slot: ext.Operand[Any]
    carry: ext.Operand[Any]
    carry_slot: ext.Operand[Any]
    y: ext.Operand[Any]
    y_slot: ext.Operand[Any]
    kind: ir.StringAttr
    down: Any


class SortTile(FTM.Operation, name="sort_tile"):
    """Each row of ``x``, a tile of i64, in ascending order into ``y``, which may be ``x``; a narrower ``y`` takes the first."""

    x: ext.Operand[Any]
    x_slot: ext.Operand[Any]
    y: ext.Operand[Any]
    y_slot: ext.Operand[Any]


class MergeTile(FTM.Operation, name="merge_tile"):
    """Row by row the elements of ``a`` and ``b``, both in ascending order, into ``y`` in ascending order."""

    a: ext.Operand[Any]
    a_slot: ext.Operand[Any]
    b: ext.Operand[Any]
    b_slot: ext.Operand[Any]
    y: ext.Operand[Any]
    y_slot: ext.Operand[Any]


class Map(FTM.Operation, name="map"):
    """An elementwise body over ``rows`` x ``columns``, with optional reductions of its results.

    ``access`` has one word for each of ``ins``: ``full``, ``row`` (1xC, repeated down the rows), ``col``
    (Rx1, repeated along the columns) or ``one`` (1x1).  ``results`` has one word for each of ``outs``:
    ``full``, or ``<reduction>.<op>`` with reduction ``r`` (along each row: Rx1), ``c`` (down each column:
    1xC) or ``a`` (all: 1x1) and op ``sum prod min max and or``; a suffix ``.acc`` combines with what the
    tile holds.  The region's arguments are the elements of ``ins``; it holds ``arith``, ``math`` and
    ``ftm`` element operations, may capture scalars from outside, and yields one value for each of ``outs``.
    """

    rows: ext.Operand[Any]
    columns: ext.Operand[Any]
    ins: Sequence[ext.Operand[Any]]
    in_slots: Sequence[ext.Operand[Any]]
    outs: Sequence[ext.Operand[Any]]
    out_slots: Sequence[ext.Operand[Any]]
    access: Any = _WORDS
    results_: Any = _WORDS
    body: ext.Region


class Barrier(FTM.Operation, name="barrier"):
    """All cores wait until each has arrived and its DMA is complete."""


class CoreId(FTM.Operation, name="core_id"):
    """The number of this core, from 0, as ``index``."""

    result: ext.Result[Any]


class NumCores(FTM.Operation, name="num_cores"):
    """How many cores run the program, as ``index``."""

    result: ext.Result[Any]


class Scalar(FTM.Operation, name="scalar"):
    """The runtime scalar argument ``symbol`` (``s0``, ...) as ``f64`` or ``i64``; usable in map bodies."""

    result: ext.Result[Any]
    symbol: ir.StringAttr


class LoadIndex(FTM.Operation, name="load_index"):
    """One integer of a DDR buffer as ``index``, for addresses that depend on data."""

    result: ext.Result[Any]
    buffer: ext.Operand[Any]
    offset: ext.Operand[Any]


# --- element operations inside ftm.map ----------------------------------------------------------------


class Position(FTM.Operation, name="position"):
    """``base + row * row_step + column * column_step`` of the element being computed, as ``i64``."""

    result: ext.Result[Any]
    base: ext.Operand[Any]
    row_step: ext.Operand[Any]
    column_step: ext.Operand[Any]


class Gather(FTM.Operation, name="gather"):
    """``buffer[index]``, element by element; an index outside the buffer is a fault of the program."""

    result: ext.Result[Any]
    buffer: ext.Operand[Any]
    index: ext.Operand[Any]


class Philox(FTM.Operation, name="philox"):
    """32 random bits (``i32``): word ``index % 4`` of Philox4x32-10, counter (index / 4, offset), key seed.

    Also legal at tensor level, inside the body of a ``linalg.generic``.  index, seed, offset: ``i64``.
    """

    result: ext.Result[Any]
    index: ext.Operand[Any]
    seed: ext.Operand[Any]
    offset: ext.Operand[Any]


def register() -> None:
    """Makes the bindings give these classes for ``ftm`` operations, in every context of the process.

    The dialect is not loaded through IRDL, which demands *one* type for all operands of a variadic group;
    ``codegen.verify`` checks the operations instead, and a context must allow unregistered dialects.
    """
    # The bindings look for a module of the dialect's name at every ftm operation they meet; finding it is cheap.
    sys.modules.setdefault("torch_mlir.dialects.ftm", sys.modules[__name__])
    for operation in FTM.operations:
        bindings.register_operation(FTM, replace=True)(operation)
