// Nested tensors of strided layout: a buffer on the device, and the sizes of its parts on the CPU.
//
// Most of PyTorch's kernels for them consist of ops on the buffer, which are recorded here. A few
// read the buffer by its address; those run on the CPU. Attention is computed on padded tensors, so
// that the program does not depend on the lengths of a batch's sequences.
#include "support/capture_mode.h"
#include "dispatch/cpu_fallback.h"
#include "dispatch/record.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/native/nested/NestedTensorUtils.h>
#include <ATen/ops/_native_multi_head_attention.h>
#include <ATen/ops/_nested_tensor_from_mask_left_aligned_native.h>
#include <ATen/ops/_nested_view_from_buffer_native.h>
#include <ATen/ops/_transformer_encoder_layer_fwd.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/to_padded_tensor_native.h>
#include <torch/library.h>

#include <set>
#include <span>
#include <string>
#include <string_view>

namespace ftm {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

void call_buffer_kernel(
    const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  op.callBoxedForDispatchKey(c10::DispatchKey::NestedTensorCPU, *stack);
}

class CpuKernel final : public c10::OperatorKernel {
 public:
  explicit CpuKernel(std::string name) : op_(std::move(name)) {}

  void operator()(
      const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const Op& op = op_.get();
    count_fallback(op);
    std::optional<c10::Device> device;
    for (auto& argument : std::span(*stack).last(op.arguments.size())) {
      if (argument.isTensor() && argument.toTensor().defined()) {
        device = device.value_or(argument.toTensor().device());
        argument = argument.toTensor().cpu();
      }
    }
    handle.callBoxed(stack);
    for (auto& result : std::span(*stack).last(handle.schema().returns().size())) {
      if (result.isTensor() && result.toTensor().defined()) {
        result = result.toTensor().to(device.value_or(c10::Device(c10::DeviceType::PrivateUse1)));
      }
    }
  }

 private:
  OpReference op_;
};

torch::CppFunction on_cpu(const std::string& name) {
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<CpuKernel>("aten::" + name));
}

// --- rows of padded tensors ---

// For a batch of sequences: returns the rows of a padded tensor [batch * length, width] that belong
// to a sequence.
Tensor rows_of(const Tensor& sizes, int64_t length) {
  const auto lengths = sizes.select(1, 0).unsqueeze(1);
  return at::arange(length).lt(lengths).flatten().nonzero().flatten();
}

Tensor make_nested(const Tensor& padded, const Tensor& rows, const Tensor& sizes) {
  const auto kept = padded.flatten(0, 1).index_select(0, rows.to(padded.device()));
  return at::native::wrap_buffer(kept.flatten(), sizes);
}

bool is_batch_of_rows(const Tensor& nested) {
  const auto* impl = at::native::get_nested_tensor_impl(nested);
  return nested.dim() == 3 && impl->opt_size(-1).has_value() &&
         at::native::nested_tensor_impl_is_contiguous(impl);
}

struct PaddedBatch {
  Tensor elements; // [batch, length, width]
  Tensor padding; // [batch, length] on the CPU; true for padding
  Tensor rows; // rows that belong to a sequence, see rows_of
  Tensor sizes;
};

// Pads to `wanted_length`, or to the longest sequence.
PaddedBatch pad_batch(
    const Tensor& nested, double value = 0, std::optional<int64_t> wanted_length = std::nullopt) {
  TORCH_CHECK(
      is_batch_of_rows(nested),
      "attention on device ftm takes contiguous nested tensors of sequences: [batch, (length), "
      "width]");
  const auto* impl = at::native::get_nested_tensor_impl(nested);
  const int64_t width = impl->size(-1);
  const auto& sizes = impl->get_nested_sizes();
  const int64_t batch = sizes.size(0);
  const int64_t length = wanted_length ? *wanted_length
                         : batch == 0  ? 0
                                       : sizes.select(1, 0).max().item<int64_t>();
  const auto rows = rows_of(sizes, length);
  const auto buffer = impl->get_buffer();
  const auto elements = at::full({batch * length, width}, value, buffer.options())
                            .index_copy(0, rows.to(buffer.device()), buffer.view({-1, width}));
  const auto padding = at::ones({batch * length}, at::kBool).index_fill(0, rows, 0);
  return {elements.view({batch, length, width}), padding.view({batch, length}), rows, sizes};
}

constexpr int64_t kKeyPaddingMaskType = 1; // of PyTorch's attention ops

// --- kernels ---

std::tuple<Tensor, Tensor> nested_attention(
    const Tensor& query, const Tensor& key, const Tensor& value, int64_t embedding, int64_t heads,
    const Tensor& weight, const Tensor& bias, const Tensor& out_weight, const Tensor& out_bias,
    const OptionalTensor& mask, bool need_weights, bool average_weights, std::optional<int64_t>) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      query.is_same(key) && key.is_same(value) && !(mask && mask->defined()) && !need_weights,
      "attention of nested tensors on device ftm supports self-attention only, without mask or "
      "weights");
  const auto batch = pad_batch(query);
  const auto [result, weights] = at::_native_multi_head_attention(
      batch.elements, batch.elements, batch.elements, embedding, heads, weight, bias, out_weight,
      out_bias, batch.padding, need_weights, average_weights, kKeyPaddingMaskType);
  return {make_nested(result, batch.rows, batch.sizes), weights};
}

Tensor nested_encoder_layer(
    const Tensor& source, int64_t embedding, int64_t heads, const Tensor& weight,
    const Tensor& bias, const Tensor& out_weight, const Tensor& out_bias, bool use_gelu,
    bool norm_first, double eps, const Tensor& norm_weight_1, const Tensor& norm_bias_1,
    const Tensor& norm_weight_2, const Tensor& norm_bias_2, const Tensor& inner_weight,
    const Tensor& inner_bias, const Tensor& outer_weight, const Tensor& outer_bias,
    const OptionalTensor& mask, std::optional<int64_t>) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !(mask && mask->defined()),
      "an encoder layer on device ftm takes nested tensors without a mask");
  if (source.numel() == 0) {
    return source.clone();
  }
  const auto batch = pad_batch(source);
  const auto result = at::_transformer_encoder_layer_fwd(
      batch.elements, embedding, heads, weight, bias, out_weight, out_bias, use_gelu, norm_first,
      eps, norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, inner_weight, inner_bias,
      outer_weight, outer_bias, batch.padding.to(source.device()), kKeyPaddingMaskType);
  return make_nested(result, batch.rows, batch.sizes);
}

Tensor to_padded(const Tensor& self, double padding, at::OptionalIntArrayRef output_size) {
  const auto* impl = at::native::get_nested_tensor_impl(self);
  const bool keeps_width =
      !output_size || (output_size->size() == 3 && (*output_size)[2] == impl->opt_size(-1));
  if (self.numel() == 0 || !keeps_width || !is_batch_of_rows(self)) {
    return at::native::NestedTensor_to_padded_tensor_generic(self, padding, output_size);
  }
  const auto& sizes = impl->get_nested_sizes();
  if (!output_size) {
    return pad_batch(self, padding).elements;
  }
  const auto [batch, length, width] =
      std::tuple{(*output_size)[0], (*output_size)[1], (*output_size)[2]};
  TORCH_CHECK(
      batch >= sizes.size(0) && length >= sizes.select(1, 0).max().item<int64_t>(),
      "Value in output_size is less than NestedTensor padded size. Truncation is not supported.");
  const auto elements = pad_batch(self, padding, length).elements;
  return at::constant_pad_nd(elements, {0, 0, 0, 0, 0, batch - sizes.size(0)}, padding);
}

std::tuple<Tensor, Tensor, Tensor> nested_layer_norm(
    const Tensor& input, c10::IntArrayRef normalized_shape, const OptionalTensor& weight,
    const OptionalTensor& bias, double eps) {
  const auto* impl = at::native::get_nested_tensor_impl(input);
  TORCH_CHECK(
      at::native::nested_tensor_impl_is_contiguous(impl),
      "layer_norm takes contiguous nested tensors");
  const auto rank = static_cast<int64_t>(normalized_shape.size());
  c10::DimVector rows{-1};
  for (int64_t k = 0; k < rank; ++k) {
    const auto size = impl->opt_size(k - rank);
    TORCH_CHECK(
        size.has_value(),
        "normalized_shape extends into irregular dimensions for the nested tensor");
    TORCH_CHECK(
        normalized_shape[k] == *size, "The shape at dimension ", k,
        "of normalized_shape doesn't match the input");
    rows.push_back(*size);
  }
  const auto [result, mean, deviation] =
      at::native_layer_norm(impl->get_buffer().view(rows), normalized_shape, weight, bias, eps);
  return {at::native::wrap_buffer(result.flatten(), impl->get_nested_sizes()), mean, deviation};
}

// The transformer encoder calls this to decide whether it can drop the padding.
bool is_left_aligned(const Tensor& input, const Tensor& mask) {
  if (capturing) { // values cannot be read during a capture: keep the padding
    return false;
  }
  return at::native::NestedTensor_nested_tensor_from_mask_left_aligned(input, mask.cpu());
}

Tensor from_mask(const Tensor& input, const Tensor& mask, bool mask_check) {
  TORCH_CHECK(
      !mask_check || is_left_aligned(input, mask), "Mask must be left-aligned without gaps");
  TORCH_CHECK(
      mask.scalar_type() == at::kBool, "Expected mask to be of ScalarType Bool, but got ",
      mask.scalar_type(), " instead.");
  TORCH_CHECK(mask.dim() == 2, "Padding mask should be 2D");
  TORCH_CHECK(input.dim() == 3, "Input should be a 3D tensor, N * L * D");
  TORCH_CHECK(mask.sizes() == input.sizes().slice(0, 2), "Mask size should match input size");
  const auto lengths = mask.cpu().sum(1);
  const auto sizes = at::stack({lengths, at::full_like(lengths, input.size(2))}, 1);
  return make_nested(input, rows_of(sizes, input.size(1)), sizes);
}

// Cuts each part out of the padded tensor.
Tensor from_padded(const Tensor& padded, const Tensor& sizes, bool heads_innermost) {
  const auto elements = heads_innermost ? padded.permute({0, 2, 1, 3}).flatten(2, 3) : padded;
  std::vector<Tensor> parts;
  for (int64_t part = 0; part < sizes.size(0); ++part) {
    Tensor slice = elements.select(0, part);
    for (int64_t dim = 0; dim < sizes.size(1); ++dim) {
      slice = slice.narrow(dim, 0, sizes[part][dim].item<int64_t>());
    }
    parts.push_back(slice.flatten());
  }
  return at::native::wrap_buffer(parts.empty() ? elements.flatten() : at::cat(parts), sizes);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, library) {
  std::set<std::string> registered{
      "native_layer_norm", "_native_multi_head_attention", "_transformer_encoder_layer_fwd",
      "to_padded_tensor"};
  library.impl("to_padded_tensor", TORCH_FN(to_padded));
  library.impl("native_layer_norm", TORCH_FN(nested_layer_norm));
  library.impl("_native_multi_head_attention", TORCH_FN(nested_attention));
  library.impl("_transformer_encoder_layer_fwd", TORCH_FN(nested_encoder_layer));
  for (const std::string name :
       {"_nested_sum_backward", "native_layer_norm_backward", "sum.dim_IntList",
        "_transform_bias_rescale_qkv"}) {
    library.impl(name.c_str(), on_cpu(name));
    registered.insert(name);
  }
  // Register each op instead of a fallback: an op that is composite on other devices, but has a
  // kernel for nested tensors, does not reach a fallback.
  for (const auto& op : c10::Dispatcher::singleton().getRegistrationsForDispatchKey(
           c10::DispatchKey::NestedTensorCPU)) {
    const std::string name = op.overload_name.empty() ? op.name : op.name + "." + op.overload_name;
    constexpr std::string_view kLibrary = "aten::";
    if (name.starts_with(kLibrary) && !registered.contains(name.substr(kLibrary.size()))) {
      library.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&call_buffer_kernel>());
    }
  }
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_nested_from_padded", TORCH_FN(from_padded));
  library.impl("_nested_tensor_from_mask", TORCH_FN(from_mask));
  library.impl("_nested_tensor_from_mask_left_aligned", TORCH_FN(is_left_aligned));
  library.impl("_nested_view_from_buffer", TORCH_FN(at::native::_nested_view_from_buffer));
}

} // namespace ftm
