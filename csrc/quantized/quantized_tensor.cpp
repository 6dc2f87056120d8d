#include "quantized/quantized_tensor.h"

#include "support/torch_version.h"

#include <ATen/ScalarOps.h>
#include <ATen/ops/fmax.h>
#include <ATen/ops/fmin.h>
#include <ATen/ops/ones_like.h>
#include <ATen/quantized/QTensorImpl.h>

#include <limits>

namespace ftm {
namespace {

// Makes a wrapped number, which becomes a runtime scalar of the program.
at::Tensor wrap_number(int64_t value) {
  at::Tensor number = c10::scalar_to_tensor(static_cast<double>(value));
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  return number;
}

double inverse_of(double scale) {
  return 1.0F / static_cast<float>(scale);
}

// Converts integral float32 values to int32. Values out of range saturate; NaN becomes the least
// integer.
at::Tensor saturate(const at::Tensor& whole) {
  constexpr double kLeast = std::numeric_limits<int32_t>::min();
  return whole.nan_to_num(kLeast, -kLeast, kLeast)
      .clamp(kLeast, -kLeast)
      .to(at::kLong)
      .clamp_max(std::numeric_limits<int32_t>::max())
      .to(at::kInt);
}

// Reshapes a vector [n] to `rank` dimensions, with n along `axis`.
at::Tensor expand_along(const at::Tensor& row, int64_t axis, int64_t rank) {
  c10::DimVector sizes(rank, 1);
  sizes[axis] = row.numel();
  return row.view(sizes);
}

at::Tensor quantize_by_channel(const at::Tensor& floats, const at::PerChannelAffineQuantizer& by) {
  const at::Tensor inverse = expand_along(
      at::ones_like(by.scales(), at::kFloat).div(by.scales().to(at::kFloat)), by.axis(),
      floats.dim());
  const at::Tensor zeros = expand_along(by.zero_points().to(at::kFloat), by.axis(), floats.dim());
  const at::Tensor whole = floats.mul(inverse).add(zeros).round();
  if (by.scalar_type() == at::kQInt32) {
    return saturate(whole);
  }
  const auto [least, greatest] = range_of(by.scalar_type());
  return whole.nan_to_num(0).clamp(least, greatest).to(integer_dtype(by.scalar_type()));
}

} // namespace

at::ScalarType integer_dtype(at::ScalarType quantized) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      quantized == at::kQInt8 || quantized == at::kQUInt8 || quantized == at::kQInt32,
      "device ftm has quantized tensors of qint8, ", "quint8 and qint32, not of ", quantized);
  return c10::toUnderlying(quantized);
}

IntegerRange range_of(at::ScalarType quantized) {
  switch (quantized) {
    case at::kQInt8: return {-128, 127};
    case at::kQUInt8: return {0, 255};
    default: return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  }
}

at::Tensor integers_of(const at::Tensor& quantized) {
  const auto key = quantized.is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::PrivateUse1;
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(quantized.storage()), c10::DispatchKeySet(key),
      c10::scalarTypeToTypeMeta(integer_dtype(quantized.scalar_type())));
  auto* impl = result.unsafeGetTensorImpl();
  impl->set_storage_offset(quantized.storage_offset());
  impl->set_sizes_and_strides(quantized.sizes(), quantized.strides());
  return result;
}

at::Tensor as_quantized(const at::Tensor& integers, at::QuantizerPtr quantizer) {
  const auto dtype = c10::scalarTypeToTypeMeta(quantizer->scalar_type());
  const auto key =
      integers.is_cpu() ? c10::DispatchKey::QuantizedCPU : c10::DispatchKey::QuantizedPrivateUse1;
  at::Tensor result = at::detail::make_tensor<at::QTensorImpl>(
      c10::Storage(integers.storage()), c10::DispatchKeySet(key), dtype, std::move(quantizer));
  auto* impl = result.unsafeGetTensorImpl();
  impl->set_storage_offset(integers.storage_offset());
  impl->set_sizes_and_strides(integers.sizes(), integers.strides());
  return result;
}

at::Tensor quantize(
    const at::Tensor& floats, double scale, int64_t zero_point, at::ScalarType dtype) {
  const at::Tensor dense = floats.contiguous(floats.suggest_memory_format());
  if constexpr (kQuantizeRoundsFirst) {
    return quantize_each(dense, scale, zero_point, dtype);
  }
  const at::Tensor multiples = dense.mul(inverse_of(scale));
  const auto quantizer = at::make_per_tensor_affine_quantizer(scale, zero_point, dtype);
  if (dtype == at::kQInt32) {
    // For qint32 the CPU multiplies and adds with two roundings; for the other dtypes with one, as
    // the machine does.
    const at::Tensor sums = multiples.to(at::kDouble).add(zero_point).to(at::kFloat);
    return as_quantized(saturate(sums.round()), quantizer);
  }
  const auto [least, greatest] = range_of(dtype);
  // NaN becomes the greatest integer.
  const at::Tensor inside =
      at::fmax(at::fmin(multiples.add(zero_point), wrap_number(greatest)), wrap_number(least));
  return as_quantized(inside.round().to(integer_dtype(dtype)), quantizer);
}

at::Tensor quantize_each(
    const at::Tensor& floats, double scale, int64_t zero_point, at::ScalarType dtype) {
  const auto [least, greatest] = range_of(dtype);
  const at::Tensor whole = floats.mul(inverse_of(scale)).round();
  const auto quantizer = at::make_per_tensor_affine_quantizer(scale, zero_point, dtype);
  if (dtype == at::kQInt32) {
    return as_quantized(saturate(whole.add(zero_point)), quantizer);
  }
  const at::Tensor inside = at::fmax(
      at::fmin(whole, wrap_number(greatest - zero_point)), wrap_number(least - zero_point));
  return as_quantized(inside.add(zero_point).to(integer_dtype(dtype)), quantizer);
}

at::Tensor quantize_like(const at::Tensor& floats, const at::Tensor& like) {
  const auto quantizer = at::get_qtensorimpl(like)->quantizer();
  if (quantizer->qscheme() == at::kPerTensorAffine) {
    const auto& by = static_cast<const at::PerTensorAffineQuantizer&>(*quantizer);
    return quantize(floats, by.scale(), by.zero_point(), by.scalar_type());
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      quantizer->qscheme() == at::kPerChannelAffine,
      "device ftm quantizes per tensor and per channel with whole zero points, not ",
      toString(quantizer->qscheme()));
  const at::Tensor dense = floats.contiguous(floats.suggest_memory_format());
  return as_quantized(
      quantize_by_channel(dense, static_cast<const at::PerChannelAffineQuantizer&>(*quantizer)),
      quantizer);
}

at::Tensor floats_of(const at::Tensor& quantized) {
  const auto quantizer = at::get_qtensorimpl(quantized)->quantizer();
  const at::Tensor integers = integers_of(quantized).contiguous(quantized.suggest_memory_format());
  if (quantizer->qscheme() == at::kPerTensorAffine) {
    const auto& by = static_cast<const at::PerTensorAffineQuantizer&>(*quantizer);
    // The subtraction wraps, as on the CPU.
    const at::Tensor distances = integers.to(at::kInt).sub(by.zero_point()).to(at::kFloat);
    return distances.mul(static_cast<double>(static_cast<float>(by.scale())));
  }
  TORCH_CHECK(
      quantizer->qscheme() == at::kPerChannelAffine ||
          quantizer->qscheme() == at::kPerChannelAffineFloatQParams,
      "dequantize: the tensor has no quantization parameters");
  const auto& by = static_cast<const at::PerChannelAffineQuantizer&>(*quantizer);
  const at::Tensor scales = expand_along(by.scales().to(at::kFloat), by.axis(), integers.dim());
  return integers.to(at::kFloat)
      .sub(expand_along(by.zero_points().to(at::kFloat), by.axis(), integers.dim()))
      .mul(scales);
}

at::QuantizerPtr quantizer_on(const at::Tensor& quantized, at::Device device) {
  auto quantizer = at::get_qtensorimpl(quantized)->quantizer();
  const auto scheme = quantizer->qscheme();
  if (scheme != at::kPerChannelAffine && scheme != at::kPerChannelAffineFloatQParams) {
    return quantizer;
  }
  const auto& by = static_cast<const at::PerChannelAffineQuantizer&>(*quantizer);
  return at::make_per_channel_affine_quantizer(
      by.scales().to(device), by.zero_points().to(device), by.axis(), by.scalar_type());
}

void check_per_tensor(const char* name, const at::Tensor& quantized) {
  TORCH_CHECK(
      quantized.qscheme() == at::kPerTensorAffine, name,
      ": only tensors that are quantized per tensor are supported, got ",
      toString(quantized.qscheme()));
}

} // namespace ftm
