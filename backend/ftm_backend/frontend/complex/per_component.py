"""Rewrites that apply an op to the real and the imaginary part separately."""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.dtypes import PART
from ftm_backend.frontend.complex.complex_to_real import (
    ComplexRewriter,
    ComplexTensor,
    Operand,
    is_complex_number,
    rewrites,
)
from ftm_backend.ir.trace.trace import Argument, DType, Ref, ScalarRef, TensorType, TraceError

_INDEX_ARGUMENTS = ("index", "indices", "mask")
"""Index arguments, which both parts share."""

_NUMBERS = ("value", "fill_value")
"""Numbers that become elements; a real one is 0 in the imaginary part."""

_MOVES = """
aten::gather aten::index_select aten::take aten::embedding aten::embedding_dense_backward
aten::_unsafe_index.Tensor aten::scatter.src aten::scatter.value aten::scatter_add aten::index_add
aten::index_copy aten::put aten::index_fill.int_Scalar aten::index_fill.int_Tensor aten::index_put
aten::_unsafe_index_put aten::masked_scatter aten::masked_fill.Scalar aten::masked_fill.Tensor
aten::unfold_backward aten::roll aten::tril aten::triu aten::repeat aten::stack
aten::constant_pad_nd aten::slice_scatter aten::select_scatter aten::select_backward
aten::slice_backward aten::permute_copy aten::transpose.int aten::view_copy aten::t_copy
aten::slice_copy.Tensor aten::select_copy.int aten::diagonal_copy aten::as_strided_copy
"""


def _on_both_parts(op: str) -> Callable[..., Ref]:
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
    """Return the argument for part `number` (0 real, 1 imaginary)."""
    if is_complex_number(value):
        if name not in _NUMBERS:
            raise TraceError(f"{name} cannot be a complex number")
        return value[number]
    if isinstance(value, tuple):
        return tuple(_part(r, name, v, dtype, number) for v in value)
    if isinstance(value, ComplexTensor):
        if value.type.dtype in PART:
            return r.cast(r.part(value.ref, number), dtype)
        if name in _INDEX_ARGUMENTS:
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
def _count_nonzero(
    r: ComplexRewriter, result: TensorType, self: ComplexTensor, **_: Argument
) -> Ref:
    """Treat an element as nonzero if one of its parts is."""
    nonzero = r.emit(
        "aten::any.dim", TensorType("i1", self.type.shape), self=self.ref, dim=-1, keepdim=False
    )
    return r.emit(r.source.nodes[r.position].op, result, self=nonzero, **_)


def _register() -> None:
    for name in _MOVES.split():
        rewrites(name)(_on_both_parts(name))


_register()
