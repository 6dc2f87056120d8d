"""Numbers as small integers: products of them, products with weights that are stored as them, and rounding to what they
can hold in training (fake quantization), as `torchao` and quantization-aware training write them."""

from __future__ import annotations

from typing import Any

from ftm_backend.frontend import elements as e
from ftm_backend.frontend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend.ops.contract import _PRODUCTS, product
from ftm_backend.frontend.ops.record import EXACT, lowering
from ftm_backend.frontend.trace import TensorType

_TENSORS = ("f32", "f16", "bf16", "i32", "i64", "u8", "i1")
"""Values, and what tells how they are quantized: scales, zero points, whether at all."""


@lowering("aten::_int_mm", ("i8", "u8"), "int_mm", EXACT)
def _int_mm(b: Any, self: Any, mat2: Any) -> Any:
    return product(b, b.cast(self, "i32"), b.cast(mat2, "i32"))


@lowering("aten::_weight_int8pack_mm", (*FLOATS, "i8"), "weight_int8", _PRODUCTS)
def _weight_int8pack_mm(b: Any, self: Any, mat2: Any, scales: Any) -> Any:
    """self[M, K] . mat2[N, K] transposed, each column scaled."""
    dtype = compute_dtype(self.dtype)
    made = product(b, b.cast(self, dtype), b.cast(mat2, dtype).transpose(0, 1))
    return b.pointwise(lambda p, s: (p * s.to(dtype)).to(b.result.dtype), [made, scales], b.result)


def _rounded(b: Any, x: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int, enabled: Any = None) -> Any:
    """(x rounded to the numbers that the integers in range stand for, whether it was in their range)"""
    from ftm_backend.frontend.builder import Value

    parameters = {k: v for k, v in (("scale", scale), ("zero", zero_point), ("on", enabled)) if isinstance(v, Value)}

    def body(value: Any, *given: Any) -> Any:
        found = {"scale": scale, "zero": zero_point, "on": enabled} | dict(zip(parameters, given, strict=True))
        wide = value.to("f32")
        step, zero = (found[k].to("f32") if isinstance(found[k], e.Elem) else wide.const(found[k]) for k in ("scale", "zero"))
        place = e.round_even(wide * (wide.const(1) / step)) + zero
        made = (e.minimum(e.maximum(place, quant_min), quant_max) - zero) * step
        inside = (place >= quant_min) & (place <= quant_max)
        if found["on"] is not None:
            on = found["on"].ne(0)
            made, inside = e.where(on, made, wide), inside | ~on
        return made.to(value.dtype), inside

    tensors = [v if v.shape == x.shape or v.type.numel != 1 else b.reshape(v, ()) for v in parameters.values()]
    return b.pointwise(body, [x, *tensors], TensorType(x.dtype, x.shape), TensorType("i1", x.shape))


@lowering("aten::fake_quantize_per_tensor_affine_cachemask", _TENSORS, "fake_quantize", EXACT)
def _per_tensor(b: Any, self: Any, scale: float, zero_point: int, quant_min: int, quant_max: int) -> Any:
    return _rounded(b, self, scale, zero_point, quant_min, quant_max)


@lowering("aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", _TENSORS, "fake_quantize", EXACT)
def _by_tensors(b: Any, self: Any, scale: Any, zero_point: Any, fake_quant_enabled: Any, quant_min: int, quant_max: int) -> Any:
    return _rounded(b, self, scale, zero_point, quant_min, quant_max, fake_quant_enabled)


@lowering("aten::fake_quantize_per_channel_affine_cachemask", _TENSORS, "fake_quantize", EXACT)
def _per_channel(b: Any, self: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int) -> Any:
    shape = [1] * self.rank
    shape[axis % self.rank] = self.shape[axis % self.rank]
    return _rounded(b, self, b.reshape(scale, shape), b.reshape(zero_point, shape), quant_min, quant_max)
