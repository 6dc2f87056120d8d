"""Ops that move complex elements or add them up: what they do, they do to the real and the
imaginary parts alike."""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.dtypes import PART
from ftm_backend.frontend.complex.split_real_imag import (
    ComplexRewriter,
    ComplexTensor,
    Operand,
    is_number,
    rewrites,
)
from ftm_backend.ir.trace.trace import Argument, DType, Ref, ScalarRef, TensorType, TraceError

_PLACES = ("index", "indices", "mask")
"""Arguments that say where: the same for both parts."""

_NUMBERS = ("value", "fill_value")
"""Numbers that become elements: a real one is zero in the imaginary part."""

_MOVES = """
aten::gather aten::index_select aten::take aten::embedding aten::embedding_dense_backward aten::_unsafe_index.Tensor
aten::scatter.src aten::scatter.value aten::scatter_add aten::index_add aten::index_copy aten::put
aten::index_fill.int_Scalar aten::index_fill.int_Tensor aten::index_put aten::_unsafe_index_put aten::masked_scatter
aten::masked_fill.Scalar aten::masked_fill.Tensor aten::unfold_backward aten::roll aten::tril aten::triu aten::repeat
aten::stack aten::constant_pad_nd aten::slice_scatter aten::select_scatter aten::select_backward aten::slice_backward
aten::permute_copy aten::transpose.int aten::view_copy aten::t_copy aten::slice_copy.Tensor aten::select_copy.int
aten::diagonal_copy aten::as_strided_copy
"""


def _moved(op: str) -> Callable[..., Ref]:
    def rewrite(r: ComplexRewriter, result: TensorType, **_: Operand) -> Ref:
        type_ = TensorType(PART[result.dtype], result.shape)
        real, imaginary = (
            r.emit(
                op,
                type_,
                **{name: _part(r, name, value, type_.dtype, k) for name, value in _.items()},
            )
            for k in (0, 1)
        )
        return r.join(real, imaginary)

    return rewrite


def _part(r: ComplexRewriter, name: str, value: Operand, dtype: str, number: int) -> Argument:
    """The argument of the op on part ``number``."""
    if is_number(value):
        if name not in _NUMBERS:
            raise TraceError(f"a complex number for {name} is not taken")
        return value[number]
    if isinstance(value, tuple):
        return tuple(_part(r, name, v, dtype, number) for v in value)
    if isinstance(value, ComplexTensor):
        if value.type.dtype in PART:
            return r.cast(r.part(value.ref, number), dtype)
        if name in _PLACES:
            return value.ref
        if number == 0:
            return r.cast(value.ref, dtype)
        return r.emit(
            "aten::zeros",
            TensorType(dtype, value.type.shape),
            size=value.type.shape,
            dtype=DType(dtype),
        )
    if name in _NUMBERS and number and isinstance(value, (int, float, ScalarRef)):
        return 0
    return value


@rewrites("aten::nonzero_static aten::count_nonzero aten::count_nonzero.dim_IntList")
def _found(r: ComplexRewriter, result: TensorType, self: ComplexTensor, **_: Argument) -> Ref:
    """What asks where elements are not zero asks where one of their parts is not."""
    nonzero = r.emit(
        "aten::any.dim", TensorType("i1", self.type.shape), self=self.ref, dim=-1, keepdim=False
    )
    return r.emit(r.source.nodes[r.position].op, result, self=nonzero, **_)


def _register() -> None:
    for name in _MOVES.split():
        rewrites(name)(_moved(name))


_register()
