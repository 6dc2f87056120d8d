// Creation of quantized tensors, and their conversion back.
#include "shape_inference/meta_calls.h"
#include "support/counters.h"
#include "support/strict_mode.h"
#include "quantized/quantized_tensor.h"
#include "dispatch/cpu_fallback.h"

#include <ATen/native/quantized/cpu/QuantUtils.h>
#include <ATen/ops/_empty_per_channel_affine_quantized.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/empty_quantized_native.h>
#include <ATen/ops/empty_strided_native.h>
#include <ATen/ops/q_per_channel_axis_native.h>
#include <ATen/ops/q_per_channel_scales_native.h>
#include <ATen/ops/q_per_channel_zero_points_native.h>
#include <ATen/ops/q_scale_native.h>
#include <ATen/ops/q_zero_point_native.h>
#include <ATen/ops/qscheme_native.h>
#include <ATen/ops/quantize_per_channel.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/quantized/QTensorImpl.h>
#include <torch/library.h>

namespace ftm {
namespace {

const c10::Device kDevice{c10::kPrivateUse1};

// --- from floats and integers ---

// Throws the CPU kernel's errors.
void check_quantize(
    const at::Tensor& self, double scale, int64_t zero_point, at::ScalarType dtype) {
  integer_dtype(dtype);
  at::quantize_per_tensor(
      at::zeros({1}, self.options().device(at::kCPU)), scale, zero_point, dtype);
}

at::Tensor quantize_per_tensor(
    const at::Tensor& self, double scale, int64_t zero_point, at::ScalarType dtype) {
  check_quantize(self, scale, zero_point, dtype);
  return quantize(self, scale, zero_point, dtype);
}

at::Tensor quantize_by_tensors(
    const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point,
    at::ScalarType dtype) {
  return ftm::quantize_per_tensor(self, scale.item().toDouble(), zero_point.item().toLong(), dtype);
}

std::vector<at::Tensor> quantize_list(
    at::TensorList tensors, const at::Tensor& scales, const at::Tensor& zero_points,
    at::ScalarType dtype) {
  const at::Tensor cpu_scales = scales.cpu();
  const at::Tensor cpu_zero_points = zero_points.cpu();
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto k = static_cast<int64_t>(i);
    results.push_back(quantize_by_tensors(tensors[i], cpu_scales[k], cpu_zero_points[k], dtype));
  }
  return results;
}

at::Tensor quantize_dynamically(const at::Tensor& self, at::ScalarType dtype, bool reduce_range) {
  if (dtype == at::kHalf) {
    return self.contiguous().to(at::kHalf);
  }
  TORCH_CHECK(dtype == at::kQInt8 || dtype == at::kQUInt8, "dtype ", dtype, "not supported");
  // The scale of a quantized tensor is a host number (`q_scale`), so it is chosen on the CPU.
  TORCH_CHECK_NOT_IMPLEMENTED(
      !is_strict(),
      "quantize_per_tensor_dynamic chooses the scale on the CPU, and FTM_STRICT forbids to. ",
      "Choose it from data beforehand and use quantize_per_tensor, or unset FTM_STRICT.");
  static auto& scales = counter("scales_on_cpu");
  scales.fetch_add(1, std::memory_order_relaxed);
  const auto [min, max] = at::aminmax(self);
  const at::Tensor extremes = at::stack({min, max}).cpu();
  const auto [low, high] = range_of(dtype);
  const auto chosen = quant_utils::ChooseQuantizationParams(
      extremes[0].item<float>(), extremes[1].item<float>(), static_cast<int32_t>(low),
      static_cast<int32_t>(high), false, false,
      reduce_range && at::globalContext().qEngine() != at::QEngine::QNNPACK);
  return ftm::quantize_per_tensor(self, chosen.scale, chosen.zero_point, dtype);
}

void check_channels(
    const at::Tensor& self, const at::Tensor& scales, const at::Tensor& zero_points, int64_t axis) {
  TORCH_CHECK(scales.dim() == 1, "scale tensor must have dimension 1");
  TORCH_CHECK(zero_points.dim() == 1, "zero_points tensor must have dimension 1");
  TORCH_CHECK(
      scales.numel() == zero_points.numel(),
      "number of elements in scales and zero_points must match");
  TORCH_CHECK(
      axis >= 0 && axis < self.dim(),
      "Channel axis out of range in per channel affine quantization. Got: ", axis,
      " Expected: [0, ", self.dim(), ")");
  TORCH_CHECK(
      scales.numel() == self.size(axis), "length of scales must equal to channel, expected ",
      self.size(axis), ", got ", scales.numel());
}

at::Tensor quantize_per_channel(
    const at::Tensor& self, const at::Tensor& scales, const at::Tensor& zero_points, int64_t axis,
    at::ScalarType dtype) {
  integer_dtype(dtype);
  TORCH_CHECK(
      self.is_privateuseone(),
      "Expected all tensors to be on the same device, but found at least two devices, ftm:0 and ",
      self.device(), "!");
  TORCH_CHECK(
      self.scalar_type() == at::kFloat, "Quantize only works on Float Tensor, got ",
      self.scalar_type());
  check_channels(self, scales, zero_points, axis);
  if (zero_points.is_floating_point()) {
    count_fallback(op_named("aten::quantize_per_channel"));
    return at::quantize_per_channel(self.cpu(), scales.cpu(), zero_points.cpu(), axis, dtype)
        .to(kDevice);
  }
  const auto quantizer = at::make_per_channel_affine_quantizer(
      scales.to(kDevice), zero_points.to(kDevice), axis, dtype);
  return quantize_like(
      self, as_quantized(at::empty({0}, self.options().dtype(integer_dtype(dtype))), quantizer));
}

at::ScalarType quantized_dtype(at::ScalarType integers) {
  const auto dtype = c10::toQIntType(integers);
  TORCH_CHECK(
      dtype != integers, "a quantized tensor is made of int8, uint8 or int32, got ", integers);
  return dtype;
}

at::Tensor make_per_tensor(const at::Tensor& self, double scale, int64_t zero_point) {
  const auto dtype = quantized_dtype(self.scalar_type());
  return as_quantized(
      self.clone(at::MemoryFormat::Contiguous),
      at::make_per_tensor_affine_quantizer(scale, zero_point, dtype));
}

at::Tensor make_per_channel(
    const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point, int64_t axis) {
  const auto dtype = quantized_dtype(self.scalar_type());
  check_channels(self, scale, zero_point, axis);
  return as_quantized(
      self.clone(at::MemoryFormat::Contiguous),
      at::make_per_channel_affine_quantizer(
          scale.to(kDevice), zero_point.to(kDevice), axis, dtype));
}

// ATen's kernels would allocate on the CPU while the engine is QNNPACK.
at::Tensor empty_integers(
    at::IntArrayRef size, at::ScalarType dtype, std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(
      at::isQIntType(dtype), "_empty_affine_quantized: expected a quantized dtype, got ", dtype);
  return at::empty(size, at::TensorOptions(kDevice).dtype(integer_dtype(dtype)), format);
}

// PyTorch's default for a missing dtype, which is not a quantized one.
at::ScalarType or_default(std::optional<at::ScalarType> dtype) {
  return dtype.value_or(at::get_default_dtype_as_scalartype());
}

at::Tensor empty_per_tensor(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<at::Device>, std::optional<bool>, double scale, int64_t zero_point,
    std::optional<at::MemoryFormat> format) {
  const at::Tensor integers = empty_integers(size, or_default(dtype), format);
  return as_quantized(
      integers, at::make_per_tensor_affine_quantizer(scale, zero_point, or_default(dtype)));
}

at::Tensor empty_per_channel(
    at::IntArrayRef size, const at::Tensor& scales, const at::Tensor& zero_points, int64_t axis,
    std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device> device, std::optional<bool> pin_memory,
    std::optional<at::MemoryFormat> format) {
  if (device && !device->is_privateuseone()) { // only the quantization parameters are on the device
    return at::_empty_per_channel_affine_quantized(
        size, scales.to(*device), zero_points.to(*device), axis, dtype, layout, device, pin_memory,
        format);
  }
  const at::Tensor integers = empty_integers(size, or_default(dtype), format);
  return as_quantized(
      integers, at::make_per_channel_affine_quantizer(
                    scales.to(kDevice), zero_points.to(kDevice), axis, or_default(dtype)));
}

at::Tensor empty_unknown(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return as_quantized(
      empty_integers(size, or_default(dtype), format),
      at::make_unknown_quantizer(or_default(dtype)));
}

// --- to floats and integers ---

at::Tensor int_repr(const at::Tensor& self) {
  return integers_of(self).clone(self.suggest_memory_format());
}

at::Tensor dequantize_plain(const at::Tensor& self) {
  return self.to(at::kFloat);
}

std::vector<at::Tensor> dequantize_list(at::TensorList tensors) {
  std::vector<at::Tensor> results;
  for (const at::Tensor& tensor : tensors) {
    results.push_back(tensor.dequantize());
  }
  return results;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("quantize_per_tensor", TORCH_FN(ftm::quantize_per_tensor));
  library.impl("quantize_per_tensor.tensor_qparams", TORCH_FN(quantize_by_tensors));
  library.impl("quantize_per_tensor.tensors", TORCH_FN(quantize_list));
  library.impl("quantize_per_tensor_dynamic", TORCH_FN(quantize_dynamically));
  library.impl("quantize_per_channel", TORCH_FN(ftm::quantize_per_channel));
  library.impl("_make_per_tensor_quantized_tensor", TORCH_FN(make_per_tensor));
  library.impl("_make_per_channel_quantized_tensor", TORCH_FN(make_per_channel));
  library.impl("_empty_affine_quantized", TORCH_FN(empty_per_tensor));
  library.impl("_empty_per_channel_affine_quantized", TORCH_FN(empty_per_channel));
  library.impl("dequantize.self", TORCH_FN(dequantize_plain));
  library.impl("dequantize.tensors", TORCH_FN(dequantize_list));
}

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, library) {
  library.impl("_empty_affine_quantized", TORCH_FN(empty_per_tensor));
  library.impl("_empty_per_channel_affine_quantized", TORCH_FN(empty_per_channel));
  library.impl("empty_quantized", TORCH_FN(at::native::empty_quantized));
  library.impl("empty.memory_format", TORCH_FN(empty_unknown));
  library.impl("empty_strided", TORCH_FN(at::native::empty_strided_unknown_quantized));
  library.impl("empty_like", TORCH_FN(at::native::empty_like_quantized));
  library.impl("qscheme", TORCH_FN(at::native::qscheme_quant));
  library.impl("q_scale", TORCH_FN(at::native::q_scale_quant));
  library.impl("q_zero_point", TORCH_FN(at::native::q_zero_point_quant));
  library.impl("q_per_channel_scales", TORCH_FN(at::native::q_per_channel_scales));
  library.impl("q_per_channel_zero_points", TORCH_FN(at::native::q_per_channel_zero_points));
  library.impl("q_per_channel_axis", TORCH_FN(at::native::q_per_channel_axis));
  library.impl("int_repr", TORCH_FN(int_repr));
  library.impl("dequantize.self", TORCH_FN(floats_of));
  library.impl("dequantize.tensors", TORCH_FN(dequantize_list));
}

} // namespace ftm
