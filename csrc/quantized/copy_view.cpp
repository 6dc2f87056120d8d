// Copies, fills, comparisons and views of quantized tensors: applied to their integers, with the
// quantizer kept or copied.
#include "quantized/quantized_tensor.h"

#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/squeeze_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/unsqueeze_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/quantized/QTensorImpl.h>
#include <torch/library.h>

namespace ftm {
namespace {

at::Tensor& copy_quantized(at::Tensor& self, const at::Tensor& source, bool) {
  if (self.is_same(source)) {
    return self;
  }
  TORCH_CHECK(
      self.is_quantized(),
      "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize "
      "to get a float Tensor from a quantized Tensor");
  if (!source.is_quantized()) {
    TORCH_CHECK(
        source.scalar_type() == at::kFloat,
        "Quantized copy only works with kFloat as source Tensor, got ", source.scalar_type());
    TORCH_CHECK(
        self.sizes() == source.sizes(),
        "Quantized copy only works with Tensors with the same shape: ", self.sizes(), " and ",
        source.sizes());
    if (self.is_cpu()) {
      return self.copy_(source.cpu());
    }
    integers_of(self).copy_(integers_of(quantize_like(source.to(self.device()), self)));
    return self;
  }
  TORCH_CHECK(
      self.qscheme() == source.qscheme(), "Quantized Copy only works with same qscheme, got ",
      toString(self.qscheme()), " and ", toString(source.qscheme()));
  TORCH_CHECK(
      self.scalar_type() == source.scalar_type(),
      "Quantized Copy only works with the same dtype, got ", self.scalar_type(), " and ",
      source.scalar_type());
  at::get_qtensorimpl(self)->set_quantizer_(quantizer_on(source, self.device()));
  integers_of(self).copy_(integers_of(source));
  return self;
}

at::Tensor copy_from_quantized(
    const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  at::Tensor result = target;
  return copy_quantized(result, source, non_blocking);
}

// Copies between devices, in both directions. ATen's kernel loses strides, and does not move
// tensors with gaps.
at::Tensor to_copy(
    const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<at::Device> device, std::optional<bool>, bool,
    std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(
      !dtype || *dtype == self.scalar_type(), "a tensor of ", self.scalar_type(),
      " is not converted to one of ", dtype.value_or(self.scalar_type()),
      ": use dequantize or quantize_per_tensor");
  const auto target = device.value_or(self.device());
  const at::Tensor integers = integers_of(self).to(
      at::TensorOptions(target), /*non_blocking=*/false, /*copy=*/true,
      format.value_or(at::MemoryFormat::Preserve));
  return as_quantized(integers, quantizer_on(self, target));
}

at::Tensor clone_quantized(const at::Tensor& self, std::optional<at::MemoryFormat> format) {
  return as_quantized(integers_of(self).clone(format), at::get_qtensorimpl(self)->quantizer());
}

// Sets each element to the quantized `value`.
at::Tensor& fill_quantized(at::Tensor& self, const at::Scalar& value) {
  const at::Tensor filled = at::full(self.sizes(), value, self.options().dtype(at::kFloat));
  integers_of(self).copy_(integers_of(quantize_like(filled, self)));
  return self;
}

at::Tensor& fill_quantized_by_tensor(at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(
      value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ",
      value.dim(), " dimensions.");
  return fill_quantized(self, value.is_quantized() ? value.dequantize().item() : value.item());
}

bool equal_quantized(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(
      self.device() == other.device(),
      "Cannot compare two tensors on different devices. Got: ", self.device(), " and ",
      other.device());
  return other.is_quantized() &&
         at::get_qtensorimpl(self)->quantizer()->equalTo(at::get_qtensorimpl(other)->quantizer()) &&
         self.sizes() == other.sizes() && self.scalar_type() == other.scalar_type() &&
         at::equal(integers_of(self), integers_of(other));
}

// --- storages ---

at::Tensor& set_quantized(
    at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef sizes,
    at::IntArrayRef strides) {
  at::Tensor integers = integers_of(self);
  integers.set_(std::move(source), offset, sizes, strides);
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(integers.storage());
  impl->set_storage_offset(integers.storage_offset());
  impl->set_sizes_and_strides(integers.sizes(), integers.strides());
  return self;
}

const at::Tensor& resize_quantized(
    const at::Tensor& self, at::IntArrayRef sizes, std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(!format, "Unsupported memory format for quantized tensor resize ", *format);
  check_per_tensor("resize_", self);
  const at::Tensor integers = integers_of(self);
  integers.resize_(sizes);
  self.unsafeGetTensorImpl()->set_sizes_and_strides(integers.sizes(), integers.strides());
  return self;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, library) {
  library.impl("copy_", TORCH_FN(copy_quantized));
  library.impl("_copy_from", TORCH_FN(copy_from_quantized));
  library.impl("_to_copy", TORCH_FN(to_copy));
  library.impl("clone", TORCH_FN(clone_quantized));
  library.impl("fill_.Scalar", TORCH_FN(fill_quantized));
  library.impl("fill_.Tensor", TORCH_FN(fill_quantized_by_tensor));
  library.impl("equal", TORCH_FN(equal_quantized));
  library.impl("set_.source_Storage_storage_offset", TORCH_FN(set_quantized));
  library.impl("resize_", TORCH_FN(resize_quantized));
  library.impl("as_strided", TORCH_FN(at::native::as_strided_qtensorimpl));
  library.impl("view", TORCH_FN(at::native::view));
  library.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  library.impl("unfold", TORCH_FN(at::native::unfold));
  library.impl(
      "squeeze",
      TORCH_FN(static_cast<at::Tensor (*)(const at::Tensor&)>(at::native::squeeze_quantized)));
  library.impl(
      "squeeze.dim",
      TORCH_FN(
          static_cast<at::Tensor (*)(const at::Tensor&, int64_t)>(at::native::squeeze_quantized)));
  library.impl(
      "squeeze.dims", TORCH_FN(
                          static_cast<at::Tensor (*)(const at::Tensor&, at::IntArrayRef)>(
                              at::native::squeeze_quantized)));
  library.impl("unsqueeze", TORCH_FN(at::native::unsqueeze_quantized));
}

} // namespace ftm
