"""Op records of quantization: integer products, weight-only products, and fake quantization.

`torchao` and quantization-aware training emit these ops.
"""

from __future__ import annotations

from ftm_backend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.matmul import matmul
from ftm_backend.frontend.oplib.op_registry import EXACT, PRODUCTS, lowering
from ftm_backend.frontend.oplib.reductions import reduce
from ftm_backend.frontend.scalar_math import Number, ScalarExpr
from ftm_backend.ir.trace.trace import TensorType

_TENSORS = ("f32", "f16", "bf16", "i32", "i64", "u8", "i1")
"""Dtypes of values and of their quantization parameters: scales, zero points, switches."""


@lowering("aten::_int_mm", ("i8", "u8"), "int_mm", EXACT)
def _int_mm(b: LinalgBuilder, self: StridedValue, mat2: StridedValue) -> StridedValue:
    return matmul(b, b.cast(self, "i32"), b.cast(mat2, "i32"))


@lowering("aten::_weight_int8pack_mm", (*FLOATS, "i8"), "weight_int8", PRODUCTS)
def _weight_int8pack_mm(
    b: LinalgBuilder, self: StridedValue, mat2: StridedValue, scales: StridedValue
) -> StridedValue:
    """Return self[M, K] . mat2[N, K] transposed, with each column scaled."""
    dtype = compute_dtype(self.dtype)
    result = matmul(b, b.cast(self, dtype), b.cast(mat2, dtype).transpose(0, 1))
    return b.pointwise(lambda p, s: p * s.to(dtype), [result, scales], b.result)


def _rounded(
    b: LinalgBuilder,
    x: StridedValue,
    scale: StridedValue | Number,
    zero_point: StridedValue | Number,
    quant_min: int,
    quant_max: int,
    enabled: StridedValue | None = None,
) -> tuple[StridedValue, StridedValue]:
    """Quantize and dequantize x; also return whether each value was in range."""
    parameters = {
        k: v
        for k, v in (("scale", scale), ("zero", zero_point), ("on", enabled))
        if isinstance(v, StridedValue)
    }

    numbers = {
        k: b.scalar_operand(v, "f32")
        for k, v in (("scale", scale), ("zero", zero_point))
        if not isinstance(v, StridedValue)
    }

    def body(value: ScalarExpr, *tensor_values: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr]:
        by_name = dict(zip(parameters, tensor_values, strict=True))
        value_f32 = value.to("f32")
        step, zero = (
            by_name[k].to("f32") if k in by_name else numbers[k] for k in ("scale", "zero")
        )
        position = e.round_even(value_f32 * (value_f32.const(1) / step)) + zero
        result = (e.minimum(e.maximum(position, quant_min), quant_max) - zero) * step
        inside = (position >= quant_min) & (position <= quant_max)
        if "on" in by_name:
            on = by_name["on"].ne(0)
            result, inside = e.where(on, result, value_f32), inside | ~on
        return result.to(value.dtype), inside

    tensors = [
        v if v.shape == x.shape or v.type.numel != 1 else b.reshape(v, ())
        for v in parameters.values()
    ]
    result, inside = b.pointwise_all(
        body, [x, *tensors], [TensorType(x.dtype, x.shape), TensorType("i1", x.shape)]
    )
    return result, inside


@lowering("aten::fake_quantize_per_tensor_affine_cachemask", _TENSORS, "fake_quantize", EXACT)
def _per_tensor(
    b: LinalgBuilder,
    self: StridedValue,
    scale: float,
    zero_point: int,
    quant_min: int,
    quant_max: int,
) -> tuple[StridedValue, StridedValue]:
    return _rounded(b, self, scale, zero_point, quant_min, quant_max)


@lowering(
    "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    _TENSORS,
    "fake_quantize",
    EXACT,
)
def _by_tensors(
    b: LinalgBuilder,
    self: StridedValue,
    scale: StridedValue,
    zero_point: StridedValue,
    fake_quant_enabled: StridedValue,
    quant_min: int,
    quant_max: int,
) -> tuple[StridedValue, StridedValue]:
    return _rounded(b, self, scale, zero_point, quant_min, quant_max, fake_quant_enabled)


@lowering("aten::fake_quantize_per_channel_affine_cachemask", _TENSORS, "fake_quantize", EXACT)
def _per_channel(
    b: LinalgBuilder,
    self: StridedValue,
    scale: StridedValue,
    zero_point: StridedValue,
    axis: int,
    quant_min: int,
    quant_max: int,
) -> tuple[StridedValue, StridedValue]:
    shape = [1] * self.rank
    shape[axis % self.rank] = self.shape[axis % self.rank]
    return _rounded(
        b, self, b.reshape(scale, shape), b.reshape(zero_point, shape), quant_min, quant_max
    )


_LEAST_SCALE = 6.1e-5
"""Minimum scale of an observer; f16 stores smaller numbers with fewer bits."""


def _chosen(
    low: ScalarExpr, high: ScalarExpr, quant_min: int, quant_max: int, symmetric: bool
) -> tuple[ScalarExpr, ScalarExpr]:
    """Return scale (f32) and zero point (i32) for values between two f32.

    Computes in f64 where PyTorch's CPU kernel does.
    """
    steps = quant_max - quant_min
    if symmetric:
        most, least = steps // 2, -(steps // 2 + 1)
        value_f32 = e.maximum(abs(low / low.const(least)), abs(high / high.const(most))).to("f64")
        both = (low < 0) & (high > 0)
        low, high = (
            e.where(both, (value_f32 * value_f32.const(bound)).to("f32"), x)
            for bound, x in ((least, low), (most, high))
        )
    low, high = e.minimum(low, 0), e.maximum(high, 0)  # the range must contain 0
    scale = ((high.to("f64") - low.to("f64")) / steps).to("f32")
    scale = e.where(scale.eq(0) | (scale.const(1) / scale).eq(float("inf")), 0.1, scale)
    small = scale < _LEAST_SCALE
    larger = scale.const(_LEAST_SCALE) / scale
    reach = scale.const(_LEAST_SCALE) * steps
    low, high = (
        e.where(small, e.where(other.eq(0), edge, e.where(x.eq(0), x, x * larger)), x)
        for x, other, edge in ((low, high, -reach), (high, low, reach))
    )
    scale = e.where(small, _LEAST_SCALE, scale)
    from_low, from_high = (x.to("f64") / scale.to("f64") for x in (low, high))
    by_low = abs(quant_min) - abs(from_low) < abs(quant_max) - abs(from_high)
    zero = e.where(by_low, quant_min - from_low, quant_max - from_high)
    if symmetric:
        zero = e.where((low < 0) & (high > 0), (quant_min + quant_max) / 2, zero)
    return scale, e.round_even(e.minimum(e.maximum(zero, quant_min), quant_max)).to("i32")


@lowering(
    "aten::_fused_moving_avg_obs_fq_helper_functional",
    ("f32", "i32", "i64", "u8", "i1"),
    "observed",
    EXACT,
)
def _observed(
    b: LinalgBuilder,
    self: StridedValue,
    observer_on: StridedValue,
    fake_quant_on: StridedValue,
    running_min: StridedValue,
    running_max: StridedValue,
    scale: StridedValue,
    zero_point: StridedValue,
    averaging_const: Number,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> tuple[StridedValue, ...]:
    """Observe and fake-quantize, per tensor or per row.

    Returns:
        The quantized values, whether each was in range, running minimum and maximum, scale, and
        zero point.
    """
    axis = ch_axis % self.rank
    dims = [k for k in range(self.rank) if not (per_row_fake_quant and k == axis)]
    kept, shape = (
        [self.shape[k] if k not in dims else 1 for k in range(self.rank)],
        running_min.shape,
    )
    low, high = (b.reshape(reduce(b, kind, [self], dims, "f32"), shape) for kind in ("min", "max"))
    on, rounds = (b.reshape(x, ()) for x in (observer_on, fake_quant_on))
    share = b.scalar_operand(averaging_const, "f32")

    def moved(current: ScalarExpr, running: ScalarExpr, observed: ScalarExpr) -> ScalarExpr:
        first = abs(running).eq(float("inf"))
        return e.where(
            observed.ne(0), e.where(first, current, running + share * (current - running)), running
        )

    def body(
        low: ScalarExpr,
        high: ScalarExpr,
        least: ScalarExpr,
        greatest: ScalarExpr,
        scale: ScalarExpr,
        zero: ScalarExpr,
        on: ScalarExpr,
        rounds: ScalarExpr,
    ) -> tuple[ScalarExpr, ...]:
        least, greatest = moved(low, least, on), moved(high, greatest, on)
        new_scale, new_zero = _chosen(least, greatest, quant_min, quant_max, symmetric_quant)
        chosen = rounds.ne(0)
        return least, greatest, e.where(chosen, new_scale, scale), e.where(chosen, new_zero, zero)

    least, greatest, scale, zero_point = b.pointwise_all(
        body,
        [
            low,
            high,
            running_min,
            running_max,
            b.reshape(scale, shape),
            b.reshape(zero_point, shape),
            on,
            rounds,
        ],
        [TensorType(dtype, shape) for dtype in ("f32", "f32", "f32", "i32")],
    )
    by_row = kept if per_row_fake_quant else ()
    result, inside = _rounded(
        b,
        self,
        b.reshape(scale, by_row),
        b.reshape(zero_point, by_row),
        quant_min,
        quant_max,
        rounds,
    )
    return (
        result,
        inside,
        least,
        greatest,
        b.reshape(scale, b.result_type(4).shape),
        b.reshape(zero_point, b.result_type(5).shape),
    )
