"""Rewrites that view, copy, create, join or select complex tensors.

They apply to the real tensor with the added dimension.
"""

from __future__ import annotations

from ftm_backend.dtypes import PART, info
from ftm_backend.frontend.complex.complex_to_real import (
    ComplexRewriter,
    ComplexTensor,
    real_type,
    rewrites,
)
from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.trace.trace import Argument, DType, Ref, TensorType


def or_zeros(r: ComplexRewriter, part: Ref | None, x: Ref) -> Ref:
    """Return `part`, or zeros of x's type if it is None."""
    if part is not None:
        return part
    return r.emit(
        "aten::zeros", TensorType(r.dtype(x), r.shape(x)), size=r.shape(x), dtype=DType(r.dtype(x))
    )


@rewrites("ftm.view")
def _view(
    r: ComplexRewriter,
    result: TensorType,
    base: ComplexTensor,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
) -> Ref:
    return r.view(base.ref, (*sizes, 2), (*(2 * s for s in strides), 1), 2 * offset)


@rewrites("ftm.update")
def _update(
    r: ComplexRewriter,
    result: TensorType,
    base: ComplexTensor,
    value: ComplexTensor,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
) -> Ref:
    return r.emit(
        "ftm.update",
        real_type(result),
        base=base.ref,
        value=value.ref,
        sizes=(*sizes, 2),
        strides=(*(2 * s for s in strides), 1),
        offset=2 * offset,
    )


@rewrites("ftm.bitcast")
def _bitcast(r: ComplexRewriter, result: TensorType, base: ComplexTensor, dtype: DType) -> Ref:
    target = real_type(result)
    assert target is not None, "a bitcast has a result"
    own = r.shape(base.ref)
    if r.dtype(base.ref) == target.dtype:
        return r.view(base.ref, target.shape, row_major(target.shape))
    count = target.numel * info(target.dtype).bits // info(r.dtype(base.ref)).bits
    if count != TensorType("", own).numel:
        raise ValueError("a bitcast keeps the bytes")
    flat = r.view(base.ref, (count,), (1,))
    cast = r.emit(
        "ftm.bitcast",
        TensorType(target.dtype, (target.numel,)),
        base=flat,
        dtype=DType(target.dtype),
    )
    return r.view(cast, target.shape, row_major(target.shape))


@rewrites(
    "aten::_to_copy aten::copy aten::clone aten::alias aten::detach aten::lift_fresh"
    " aten::contiguous aten::positive"
)
def cast_complex(
    r: ComplexRewriter, result: TensorType, self: ComplexTensor, src: ComplexTensor | None = None
) -> Ref:
    """Cast `self` (or `src`) to the result's dtype, and expand it to its shape."""
    x = self if src is None else src
    if result.dtype in PART:
        if x.type.dtype in PART:
            return r.expand(r.cast(x.ref, PART[result.dtype]), (*result.shape, 2))
        return r.join(r.parts(x, result)[0], None)
    if result.dtype == "i1":
        type_ = TensorType("i1", x.type.shape)
        return r.expand(
            r.emit("aten::any.dim", type_, self=x.ref, dim=-1, keepdim=False), result.shape
        )
    return r.expand(r.cast(r.part(x.ref, 0), result.dtype), result.shape)


@rewrites("aten::expand aten::expand_copy aten::broadcast_to")
def _expand(r: ComplexRewriter, result: TensorType, self: ComplexTensor) -> Ref:
    return r.expand(self.ref, (*result.shape, 2))


@rewrites(
    "aten::zeros aten::zeros_like aten::new_zeros aten::zero aten::empty.memory_format"
    " aten::empty_like aten::new_empty aten::new_empty_strided aten::empty_strided"
    " aten::empty_permuted"
)
def _zeros(r: ComplexRewriter, result: TensorType, **_: object) -> Ref:
    type_ = real_type(result)
    assert type_ is not None, "zeros have a type"
    return r.emit("aten::zeros", type_, size=type_.shape, dtype=DType(type_.dtype))


@rewrites("aten::full aten::full_like aten::new_full aten::fill.Scalar")
def _full(
    r: ComplexRewriter, result: TensorType, fill_value: Argument = None, value: Argument = None
) -> Ref:
    return r.join(*r.parts(value if fill_value is None else fill_value, result))


@rewrites("aten::ones aten::ones_like aten::new_ones")
def _ones(r: ComplexRewriter, result: TensorType, **_: object) -> Ref:
    return r.join(r.parts(1, result)[0], None)


@rewrites("aten::cat")
def _cat(
    r: ComplexRewriter, result: TensorType, tensors: tuple[ComplexTensor, ...], dim: int
) -> Ref:
    type_ = real_type(result)
    assert type_ is not None, "cat has a result"
    pairs = []
    for t in tensors:
        whole = TensorType(result.dtype, t.type.shape)
        pairs.append(cast_complex(r, whole, t))
    return r.emit("aten::cat", type_, tensors=tuple(pairs), dim=dim % max(1, len(result.shape)))


@rewrites("aten::flip")
def _flip(
    r: ComplexRewriter, result: TensorType, self: ComplexTensor, dims: tuple[int, ...]
) -> Ref:
    if not result.shape:
        return self.ref  # no dimension to flip, though eager accepts 0 and -1
    return r.emit(
        "aten::flip",
        real_type(result),
        self=self.ref,
        dims=tuple(d % len(result.shape) for d in dims),
    )


@rewrites("aten::where.self")
def _where(
    r: ComplexRewriter,
    result: TensorType,
    condition: ComplexTensor,
    self: ComplexTensor,
    other: ComplexTensor,
) -> Ref:
    (a, b), (c, d) = r.parts(self, result), r.parts(other, result)
    chosen = [
        r.emit(
            "aten::where.self",
            TensorType(r.dtype(a), result.shape),
            condition=condition.ref,
            self=x,
            other=y,
        )
        for x, y in ((a, c), (or_zeros(r, b, a), or_zeros(r, d, a)))
    ]
    return r.join(chosen[0], chosen[1])


@rewrites("aten::index.Tensor")
def _index(
    r: ComplexRewriter,
    result: TensorType,
    self: ComplexTensor,
    indices: tuple[ComplexTensor | None, ...],
) -> Ref:
    refs = tuple(i if i is None else i.ref for i in indices)
    return r.emit("aten::index.Tensor", real_type(result), self=self.ref, indices=refs)
