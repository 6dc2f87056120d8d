"""Op records that create tensors from numbers."""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.dtypes import ALL, NUMBERS, STORED, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.op_registry import EXACT, lowering
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.scalar_math import Number, ScalarExpr

recorded(
    "aten::arange aten::range aten::linspace aten::logspace",
    constants=("start", "end", "step"),
    takes_no_bools=True,
)
recorded("aten::complex", tried=("out",))  # rewritten by complex/arithmetic.py
recorded("aten::polar", tried=("mixed",))
recorded("aten::kaiser_window", composite="unfit")


def _constant(names: str, fill: int) -> None:
    @lowering(" ".join(f"aten::{name}" for name in names.split()), STORED, "creation", EXACT)
    def lower(b: LinalgBuilder, **_: object) -> StridedValue:
        return b.full(fill, b.result.dtype, b.result.shape)


_constant(
    "zeros zeros_like new_zeros empty.memory_format empty_like new_empty empty_strided"
    " new_empty_strided empty_permuted zero",
    0,
)
_constant("ones ones_like new_ones", 1)


@lowering("aten::full aten::full_like aten::new_full", STORED, "creation", EXACT)
def _full(b: LinalgBuilder, fill_value: Number, **_: object) -> StridedValue:
    return b.full(fill_value, b.result.dtype, b.result.shape)


@lowering("aten::fill.Scalar", STORED, "creation", EXACT)
def _fill_with(b: LinalgBuilder, self: StridedValue, value: Number) -> StridedValue:
    return b.full(value, b.result.dtype, b.result.shape)


@lowering("aten::fill.Tensor", STORED, "fill", EXACT)
def _fill(b: LinalgBuilder, self: StridedValue, value: StridedValue | ScalarExpr) -> StridedValue:
    if isinstance(value, e.ScalarExpr):
        return b.full(value, b.result.dtype, b.result.shape)
    return b.cast(value.expand(b.result.shape), b.result.dtype)


@lowering("aten::scalar_tensor", STORED, "creation", EXACT)
def _scalar_tensor(b: LinalgBuilder, s: Number) -> StridedValue:
    return b.full(s, b.result.dtype, ())


@lowering("aten::arange aten::arange.start aten::arange.start_step", NUMBERS, "arange")
def _arange(b: LinalgBuilder, end: Number, start: Number = 0, step: Number = 1) -> StridedValue:
    # PyTorch computes start + i * step in f64 for floats and in i64 for integers.
    wide = "f64" if e.info(b.result.dtype).kind == "float" else "i64"
    first, stride = b.scalar_operand(start, wide), b.scalar_operand(step, wide)

    def body() -> ScalarExpr:
        return b.index(0).to(wide) * stride + first

    return b.generic(b.result.shape, [], [LoopOutput(b.result.dtype, b.result.shape, [0])], body)[0]


@lowering("aten::linspace", NUMBERS, "linspace")
def _linspace(b: LinalgBuilder, start: Number, end: Number, steps: int) -> StridedValue:
    return _spaced(b, start, end, steps, lambda x: x)


# a power amplifies the error of its exponent
@lowering(
    "aten::logspace",
    NUMBERS,
    "linspace",
    {"f64": (1e-11, 1e-12), "f32": (5e-5, 1e-6), "f16": (2e-3, 1e-3), "bf16": (1.6e-2, 1e-2)},
)
def _logspace(
    b: LinalgBuilder, start: Number, end: Number, steps: int, base: float
) -> StridedValue:
    return _spaced(b, start, end, steps, lambda x: e.pow_(x.const(base), x))


def _spaced(
    b: LinalgBuilder, start: Number, end: Number, steps: int, function: Callable[..., ScalarExpr]
) -> StridedValue:
    """Evaluate `function` at evenly spaced points, each computed from the nearer end."""
    compute = compute_dtype(b.result.dtype)
    compute = compute if e.info(compute).kind == "float" else "f64"
    # integer results truncate the ends first
    first, last = (
        b.scalar_operand(x, b.result.dtype if e.info(b.result.dtype).kind == "int" else compute).to(
            compute
        )
        for x in (start, end)
    )

    def body() -> ScalarExpr:
        position = b.index(0)
        step = (last - first) / max(1, steps - 1)
        forward = first + step * position.to(compute)
        backward = last - step * (position.const(steps - 1) - position).to(compute)
        return function(e.where(position < steps // 2, forward, backward))

    if steps == 1:
        return b.full(function(first), b.result.dtype, (1,))
    return b.generic(b.result.shape, [], [LoopOutput(b.result.dtype, b.result.shape, [0])], body)[0]


@lowering("aten::eye aten::eye.m", ALL, "creation", EXACT)
def _eye(b: LinalgBuilder, **_: object) -> StridedValue:
    def body() -> ScalarExpr:
        return b.index(0).eq(b.index(1))

    return b.generic(
        b.result.shape, [], [LoopOutput(b.result.dtype, b.result.shape, [0, 1])], body
    )[0]
