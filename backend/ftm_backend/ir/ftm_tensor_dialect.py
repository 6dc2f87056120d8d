"""The ``ftm`` dialect: the compiler's own operations on tensors, used together with ``linalg``.

It has what upstream dialects lack: strided views, scatters, scans, sorts, random numbers, and
groups of operations that share a loop nest. Kernels below the tensor level are no MLIR: see
``ir.tile``.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from ftm_backend.mlir import bindings, ext, ir

# The bindings take an empty array attribute for a missing one, hence the factory.
_INTEGERS = ext.attribute(default_factory=lambda: ir.DenseI64ArrayAttr.get([]))


if TYPE_CHECKING:
    Result: TypeAlias = Any
    Operand: TypeAlias = Result
    Integers: TypeAlias = Result

    class FTM:
        """Stand-in for the type checker: the MLIR bindings have no annotations."""

        operations: ClassVar[list[type[object]]]

        class Operation:
            """Base class of operations."""

            def __init_subclass__(cls, *, name: str, traits: Sequence[type] = ()) -> None: ...
            def __init__(self, *arguments: object, **attributes: object) -> None: ...
            def __getattr__(self, name: str) -> Any: ...

else:
    Result, Operand, Integers = ext.Result[Any], ext.Operand[Any], Any

    class FTM(ext.Dialect, name="ftm"):
        """The dialect; its operations are below."""


# --- tensor level
# -------------------------------------------------------------------------------------


class View(FTM.Operation, name="view"):
    """``result[i...] = flat(base)[offset + sum(i_k * strides_k)]``.

    ``flat`` is the row-major flattening of ``base``; the shape is that of the result's type. A view
    is free: it becomes part of the accesses of its consumers.
    """

    result: Result
    base: Operand
    offset: ir.IntegerAttr
    strides: Integers = _INTEGERS


class Update(FTM.Operation, name="update"):
    """``base`` with ``flat(base)[offset + sum(i_k * strides_k)] = value[i...]``.

    The result has the type of ``base``. The attribute ``joined`` marks an update of a result of
    other updates that writes none of their elements, so all of them may execute in any order.
    """

    result: Result
    base: Operand
    value: Operand
    offset: ir.IntegerAttr
    strides: Integers = _INTEGERS


class Border(FTM.Operation, name="border"):
    """``inside`` padded with zeros: ``low[k]`` before it, the rest of the result's shape after it.

    The padded tensor is never stored: its consumers load ``inside`` and pad while loading.
    ``inside`` must be a dense tensor.
    """

    result: Result
    inside: Operand
    low: Integers = _INTEGERS


class Window(FTM.Operation, name="window"):
    """One iteration's part of ``base``: a dense run of ``flat(base)``, in the result's shape.

    The run starts at element ``start + iteration * step``; ``iteration`` is the loop's counter.
    """

    result: Result
    base: Operand
    iteration: Operand
    start: ir.IntegerAttr
    step: ir.IntegerAttr


class Place(FTM.Operation, name="place"):
    """``base`` with ``value`` written over the window that ``start`` and ``step`` describe.

    See `Window`.
    """

    result: Result
    base: Operand
    value: Operand
    iteration: Operand
    start: ir.IntegerAttr
    step: ir.IntegerAttr


class Scatter(FTM.Operation, name="scatter"):
    """``dest[indices[i], :] (reduce)= updates[i, :]`` in the order of ``i``.

    dest: tensor<NxDxT>, indices: tensor<Mxi64> in [0, N), updates: tensor<MxDxT>, result: the type
    of dest. reduce: "set", "add", "mul", "min" or "max".
    """

    result: Result
    dest: Operand
    indices: Operand
    updates: Operand
    reduce: ir.StringAttr


class Scan(FTM.Operation, name="scan"):
    """``result[o, n, i]`` combines ``x[o, 0..n, i]`` in order; all are tensor<OxNxIxT>.

    kind: "add", "mul", "min", "max" or "lse" (log(exp(a) + exp(b)), floats only). "min" and "max"
    are signed, propagate NaN, and of equal operands take the later one.
    """

    result: Result
    x: Operand
    kind: ir.StringAttr


class Sort(FTM.Operation, name="sort"):
    """The first K elements of each row of ``x`` in ascending order.

    x: tensor<RxNxi64>, result: tensor<RxKxi64>, K <= N.
    """

    result: Result
    x: Operand


class ConvTranspose(FTM.Operation, name="conv_transpose"):
    """The transposed convolution of ``x`` by ``weight``.

    x: tensor<NxGFxOxPxT>, weight: tensor<GFxCxKxLxT>, result: tensor<NxGCxHxWxU>, for G groups of F
    filters and C channels, where U is the type of sums of T. In each group, window (o, p) adds
    ``x[n, f, o, p] * weight[f, c, k, l]`` to ``result[n, c, o * stride + k * dilation - padding,
    ...]`` if that is in bounds. x and result may have a dimension more behind the channels, whose
    planes are computed separately. stride, dilation, padding: one number per spatial dimension,
    such as "2,2". Before pass
    ``choose-algorithm``, ``expansion`` is the same tensor, computed by convolutions.
    """

    result: Result
    x: Operand
    weight: Operand
    expansion: Sequence[Operand]
    stride: ir.StringAttr
    dilation: ir.StringAttr
    padding: ir.StringAttr


class CollectiveStart(FTM.Operation, name="collective_start"):
    """Starts a collective over the processes of a group; ``x`` is what this one contributes.

    The result is complete at `CollectiveWait`, or if nothing waits, at some time after the program.
    call (i64): the number by which the caller knows the collective, 0 for one of this process
    alone. kind: "allreduce", "broadcast", "reduce", "allgather", "reducescatter", "alltoall",
    "gather", "scatter", "send" or "recv"; a process that gets nothing has an empty result.
    reduction: "add", "mul", "min", "max" or "avg"; "" if it does not reduce.
    """

    result: Result
    x: Operand
    call: Operand
    kind: ir.StringAttr
    reduction: ir.StringAttr


class CollectiveWait(FTM.Operation, name="collective_wait"):
    """The result ``x`` of the collective ``call`` (i64), once it is complete."""

    result: Result
    x: Operand
    call: Operand


class Kernel(FTM.Operation, name="kernel"):
    """A group of operations that share one loop nest; the region may use values from outside.

    The region ends in ``ftm.yield`` of the values that are used outside. ``kind`` names the
    lowering: see ``midend.kernel_ir.kernel``.
    """

    outs: Sequence[Result]
    kind: ir.StringAttr
    body: ext.Region


class Yield(FTM.Operation, name="yield", traits=[ir.IsTerminatorTrait]):
    """Terminates the region of ``ftm.kernel``."""

    values: Sequence[Operand]


# --- element operations
# ---------------------------------------------------------------------------------


class Philox(FTM.Operation, name="philox"):
    """32 random bits (``i32``), for the body of a ``linalg.generic``.

    Word ``index % 4`` of Philox4x32-10 with counter (index / 4, offset) and key seed. index, seed
    and offset are ``i64``.
    """

    result: Result
    index: Operand
    seed: Operand
    offset: Operand


def register() -> None:
    """Register these classes for ``ftm`` operations, in every MLIR context of the process.

    The dialect is not loaded through IRDL, which demands *one* type for all operands of a variadic
    group, so a context must allow unregistered dialects.
    """
    # The bindings import `torch_mlir.dialects.<dialect>` at every ftm operation that they meet.
    # An entry in sys.modules makes that import cheap.
    sys.modules.setdefault("torch_mlir.dialects.ftm", sys.modules[__name__])
    for operation in FTM.operations:
        bindings.register_operation(FTM, replace=True)(operation)
