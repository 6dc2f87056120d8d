// Quantized tensors: ATen's own QTensorImpl over a storage of the device. The storage's elements
// are those of the integers' dtype, so the trace knows integers and floating point numbers only;
// what they stand for is the quantizer's.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/quantized/Quantizer.h>

namespace ftm {

// int8 of qint8 and so on; throws for those of less than a byte.
at::ScalarType integer_dtype(at::ScalarType quantized);
// The integers that a dtype holds.
struct IntegerRange { int64_t least, greatest; };
IntegerRange range_of(at::ScalarType quantized);

// The tensor's integers, as a tensor that shares its storage; of the CPU or the device.
at::Tensor integers_of(const at::Tensor& quantized);
// A quantized tensor that shares the storage of these integers, of the CPU or the device.
at::Tensor as_quantized(const at::Tensor& integers, at::QuantizerPtr quantizer);

// As torch.quantize_per_tensor rounds: to the nearest, ties to even, after the zero point was
// added; then clamped. `floats`: float32 of the device.
at::Tensor quantize(
    const at::Tensor& floats, double scale, int64_t zero_point, at::ScalarType dtype);
// As elementwise ops round: before the zero point is added.
at::Tensor quantize_each(
    const at::Tensor& floats, double scale, int64_t zero_point, at::ScalarType dtype);
// With the quantizer of `like`, whatever its scheme.
at::Tensor quantize_like(const at::Tensor& floats, const at::Tensor& like);
at::Tensor floats_of(const at::Tensor& quantized);

// The same quantizer, with its tensors (if it has some) on `device`.
at::QuantizerPtr quantizer_on(const at::Tensor& quantized, at::Device device);

void check_per_tensor(const char* name, const at::Tensor& quantized);

} // namespace ftm
