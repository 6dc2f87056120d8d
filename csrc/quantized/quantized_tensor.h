// Quantized tensors: ATen's QTensorImpl over a device storage. The storage's elements have the
// integer dtype, so traces have integers and floats only; the quantizer gives them their meaning.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/quantized/Quantizer.h>

namespace ftm {

// Returns the dtype of a quantized dtype's integers: int8 for qint8. Throws NotImplementedError for
// those of less than a byte.
at::ScalarType integer_dtype(at::ScalarType quantized);
// The integers that a quantized dtype can represent.
struct IntegerRange { int64_t least, greatest; };
// Returns that range.
IntegerRange range_of(at::ScalarType quantized);

// Returns the tensor's integers as a tensor that shares its storage. CPU or device.
at::Tensor integers_of(const at::Tensor& quantized);
// Returns a quantized tensor that shares the storage of these integers. CPU or device.
at::Tensor as_quantized(const at::Tensor& integers, at::QuantizerPtr quantizer);

// Quantizes as torch.quantize_per_tensor: adds the zero point, rounds to nearest (ties to even),
// then clamps. PyTorch 2.14 rounds first. `floats` is a float32 device tensor.
at::Tensor quantize(
    const at::Tensor& floats, double scale, int64_t zero_point, at::ScalarType dtype);
// Quantizes as elementwise ops: rounds before the zero point is added.
at::Tensor quantize_each(
    const at::Tensor& floats, double scale, int64_t zero_point, at::ScalarType dtype);
// Quantizes with the quantizer of `like`, per tensor or per channel.
at::Tensor quantize_like(const at::Tensor& floats, const at::Tensor& like);
// Dequantizes to float32.
at::Tensor floats_of(const at::Tensor& quantized);

// Returns the tensor's quantizer with its tensors, if it has some, moved to `device`.
at::QuantizerPtr quantizer_on(const at::Tensor& quantized, at::Device device);

// Throws if the tensor is not quantized per tensor; `name` is the op.
void check_per_tensor(const char* name, const at::Tensor& quantized);

} // namespace ftm
