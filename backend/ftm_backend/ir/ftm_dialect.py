"""The ``ftm`` dialect: the compiler's own operations on tensors, beside linalg.

What upstream cannot say about strided views, scatters, scans, sorts, random numbers and groups of
operations that share a loop nest. What kernels become below that has a form and a text of its own:
see ``tile``.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from ftm_backend.mlir import bindings, ext, ir

_INTEGERS = ext.attribute(default_factory=lambda: ir.DenseI64ArrayAttr.get([]))
# Array attributes are keyword arguments; the factories are there because the bindings take an empty
# array for a missing one.


if TYPE_CHECKING:
    Result: TypeAlias = Any
    Operand: TypeAlias = Any
    Integers: TypeAlias = Any

    class FTM:
        """What the bindings make of the class below: they come without types."""

        operations: ClassVar[list[type[Any]]]

        class Operation:
            def __init_subclass__(cls, *, name: str, traits: Sequence[type] = ()) -> None: ...
            def __init__(self, *arguments: object, **attributes: object) -> None: ...
            def __getattr__(self, name: str) -> Any: ...

else:
    Result, Operand, Integers = ext.Result[Any], ext.Operand[Any], Any

    class FTM(ext.Dialect, name="ftm"):
        """See the module's docstring."""


# --- tensor level
# -------------------------------------------------------------------------------------


class View(FTM.Operation, name="view"):
    """``result[i...] = flat(base)[offset + sum(i_k * strides_k)]``; the shape is the result's type.

    ``flat`` is the row-major flattening of ``base``. Costs nothing: it becomes an access of its
    consumers.
    """

    result: Result
    base: Operand
    offset: ir.IntegerAttr
    strides: Integers = _INTEGERS


class Update(FTM.Operation, name="update"):
    """``base`` with ``flat(base)[offset + sum(i_k * strides_k)] = value[i...]``; the result has
    base's type.

    The attribute ``joined`` says that ``base`` comes from updates of other elements, so that all
    may happen in any order.
    """

    result: Result
    base: Operand
    value: Operand
    offset: ir.IntegerAttr
    strides: Integers = _INTEGERS


class Border(FTM.Operation, name="border"):
    """``inside`` with zeros around it: ``low`` of them before it in each dimension, and as many
    after it as the result has more.

    It is nowhere in memory: what reads it fetches elements of ``inside``, which are all of a
    tensor, in order.
    """

    result: Result
    inside: Operand
    low: Integers = _INTEGERS


class Window(FTM.Operation, name="window"):
    """``flat(base)[start + iteration * step ...]``, dense, in the shape of the result; in a loop,
    whose counter is ``iteration``."""

    result: Result
    base: Operand
    iteration: Operand
    start: ir.IntegerAttr
    step: ir.IntegerAttr


class Place(FTM.Operation, name="place"):
    """``base`` with ``value`` written over the window that ``start`` and ``step`` say, as for
    `Window`."""

    result: Result
    base: Operand
    value: Operand
    iteration: Operand
    start: ir.IntegerAttr
    step: ir.IntegerAttr


class Scatter(FTM.Operation, name="scatter"):
    """``dest[indices[i], :] (reduce)= updates[i, :]`` in the order of ``i``; the result has dest's
    type.

    dest: tensor<NxDxT>, indices: tensor<Mxi64> in [0, N), updates: tensor<MxDxT>.
    reduce: "set", "add", "mul", "min" or "max".
    """

    result: Result
    dest: Operand
    indices: Operand
    updates: Operand
    reduce: ir.StringAttr


class Scan(FTM.Operation, name="scan"):
    """``result[o, n, i]`` combines ``x[o, 0..n, i]``, in order; all are tensor<OxNxIxT>.

    kind: "add", "mul", "min", "max" or "lse" (log(exp(a) + exp(b)), floats only). "min" and "max"
    are signed, propagate NaN and take the later of equals.
    """

    result: Result
    x: Operand
    kind: ir.StringAttr


class Sort(FTM.Operation, name="sort"):
    """The first K elements of each row of ``x`` in ascending order; x: tensor<RxNxi64>, result:
    tensor<RxKxi64>, K <= N."""

    result: Result
    x: Operand


class ConvTranspose(FTM.Operation, name="conv_transpose"):
    """The transposed convolution of ``x``: tensor<NxFxOxPxT> by ``weight``: tensor<FxCxKxLxT>;
    result: tensor<NxCxHxWxU>.

    Window (o, p) adds ``x[n, f, o, p] * weight[f, c, k, l]`` to ``result[n, c, o * stride + k *
    dilation - padding, ...]``, where that is inside. stride, dilation, padding: a number for each
    of the two dimensions, as "2,2". U is the type that sums of T have.
    """

    result: Result
    x: Operand
    weight: Operand
    stride: ir.StringAttr
    dilation: ir.StringAttr
    padding: ir.StringAttr


class Kernel(FTM.Operation, name="kernel"):
    """A group of operations that share one loop nest; the region may use values from outside.

    It ends in ``ftm.yield`` of what is used outside. ``kind`` names the lowering that takes it: see
    ``midend``.
    """

    outs: Sequence[Result]
    kind: ir.StringAttr
    body: ext.Region


class Yield(FTM.Operation, name="yield", traits=[ir.IsTerminatorTrait]):
    """Ends the region of ``ftm.kernel``."""

    values: Sequence[Operand]


# --- element operations
# ---------------------------------------------------------------------------------


class Philox(FTM.Operation, name="philox"):
    """32 random bits (``i32``): word ``index % 4`` of Philox4x32-10, counter (index / 4, offset),
    key seed.

    For the body of a ``linalg.generic``.  index, seed, offset: ``i64``.
    """

    result: Result
    index: Operand
    seed: Operand
    offset: Operand


def register() -> None:
    """Makes the bindings give these classes for ``ftm`` operations, in every context of the
    process.

    The dialect is not loaded through IRDL, which demands *one* type for all operands of a variadic
    group; a context must allow unregistered dialects.
    """
    # The bindings look for a module of the dialect's name at every ftm operation they meet; finding
    # it is cheap.
    sys.modules.setdefault("torch_mlir.dialects.ftm", sys.modules[__name__])
    for operation in FTM.operations:
        bindings.register_operation(FTM, replace=True)(operation)
