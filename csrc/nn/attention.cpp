// The fast path of PyTorch's attention modules in evaluation. These ops are whole layers, for which
// each device has its own kernels. Here they are composed of recorded ops, which the compiler
// fuses.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_safe_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <tuple>

namespace ftm {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// What a mask covers: [target, source], [batch, source], or all scores.
enum MaskType : int64_t { kSourceMask = 0, kKeyPaddingMask = 1, kDefaultMask = 2 };

// Returns the mask in a shape that broadcasts to the scores.
Tensor expand_mask(const Tensor& mask, const Tensor& scores, std::optional<int64_t> type) {
  const int64_t kind = type.value_or(kDefaultMask);
  TORCH_CHECK(mask.scalar_type() == at::kBool, "Mask should be a boolean tensor");
  TORCH_CHECK(
      kind == kSourceMask || kind == kKeyPaddingMask || kind == kDefaultMask,
      "Mask Type should be 0 (src_mask) or 1 (src_key_padding_mask), or 2 (default_mask)");
  if (mask.sizes() == scores.sizes()) {
    return mask;
  }
  TORCH_CHECK(
      kind != kDefaultMask && scores.dim() == 4 && mask.dim() == 2,
      "For mask_type == 2 mask shape should match input shape");
  const int64_t source = scores.size(3);
  if (kind == kSourceMask) {
    TORCH_CHECK(
        mask.size(0) == scores.size(2) && mask.size(1) == source,
        "For mask_type == 0 mask shape should be (L, L)");
    return mask;
  }
  TORCH_CHECK(
      mask.size(0) == scores.size(0) && mask.size(1) == source,
      "For mask_type == 1 mask shape should be (B, L)");
  return mask.unsqueeze(1).unsqueeze(1);
}

// Fully masked rows become 0, as outside of the fast path. Kernels of other devices differ in that;
// some return NaN.
Tensor masked_softmax(
    const Tensor& self, const Tensor& mask, std::optional<int64_t> dim,
    std::optional<int64_t> mask_type) {
  const auto masked = self.masked_fill(
      expand_mask(mask, self, mask_type), -std::numeric_limits<double>::infinity());
  return at::_safe_softmax(masked, dim.value_or(self.dim() - 1));
}

Tensor masked_softmax_backward(
    const Tensor& grad_output, const Tensor& output, const Tensor& mask,
    std::optional<int64_t> dim) {
  TORCH_CHECK(grad_output.sizes() == mask.sizes(), "Mask shape should match grad shape");
  const auto grad = at::_softmax_backward_data(
      grad_output.masked_fill(mask, 0), output, dim.value_or(output.dim() - 1),
      output.scalar_type());
  return grad.masked_fill(mask, 0);
}

// Splits [batch, length, 3 * embedding] into queries, keys and values, each [batch, heads, length,
// embedding / heads]. Queries are scaled.
std::tuple<Tensor, Tensor, Tensor> split_heads(const Tensor& projected, int64_t heads) {
  const int64_t embedding = projected.size(2) / 3;
  TORCH_CHECK(heads > 0 && embedding % heads == 0, "`embed_dim` must divide evenly by `num_heads`");
  const int64_t width = embedding / heads;
  const auto parts = projected.reshape({projected.size(0), projected.size(1), 3, heads, width})
                         .permute({2, 0, 3, 1, 4});
  return {parts[0] / std::sqrt(static_cast<double>(width)), parts[1], parts[2]};
}

std::tuple<Tensor, Tensor, Tensor> transform_bias_rescale_qkv(
    const Tensor& qkv, const Tensor& bias, int64_t heads) {
  const auto [query, key, value] = split_heads(qkv + bias, heads);
  return {query.contiguous(), key.contiguous(), value.contiguous()};
}

void check_attention(
    const Tensor& query, const Tensor& key, const Tensor& value, int64_t embedding, int64_t heads,
    const Tensor& weight, const Tensor& bias) {
  TORCH_CHECK(query.dim() == 3, "expected 3-D `query`, got ", query.dim(), "-D tensor");
  TORCH_CHECK(
      query.size(2) == embedding, "passed-in embed_dim ", embedding,
      " didn't match last dim of query ", query.size(2));
  TORCH_CHECK(key.dim() == 3, "expected 3-D `key`, got ", key.dim(), "-D tensor");
  TORCH_CHECK(value.dim() == 3, "expected 3-D `value`, got ", value.dim(), "-D tensor");
  TORCH_CHECK(
      query.sizes() == key.sizes() && key.sizes() == value.sizes(),
      "expected `query`/`key`/`value` shapes to match");
  TORCH_CHECK(weight.dim() == 2, "expected 2-D `qkv_weight`, got ", weight.dim(), "-D tensor");
  TORCH_CHECK(
      weight.size(0) == 3 * embedding, "expected `qkv_weight` first dim to be 3x embed_dim");
  TORCH_CHECK(weight.size(1) == embedding, "expected `qkv_weight` second dim to be embed_Dim");
  TORCH_CHECK(bias.dim() == 1, "expected 1-D `qkv_bias`, got ", bias.dim(), "-D tensor");
  TORCH_CHECK(
      bias.size(0) == 3 * embedding,
      "expected `qkv_bias` first dim and first dim of query to be equal");
  TORCH_CHECK(heads > 0 && embedding % heads == 0, "`embed_dim` must divide evenly by `num_heads`");
}

// Returns (result, attention weights if needed).
std::tuple<Tensor, Tensor> attention(
    const Tensor& query, const Tensor& key, const Tensor& value, int64_t embedding, int64_t heads,
    const Tensor& weight, const Tensor& bias, const Tensor& out_weight, const Tensor& out_bias,
    const OptionalTensor& mask, bool need_weights, bool average_weights,
    std::optional<int64_t> mask_type) {
  check_attention(query, key, value, embedding, heads, weight, bias);
  if (query.numel() == 0) {
    return {query, Tensor()};
  }
  Tensor projected;
  if (query.is_same(key) && key.is_same(value)) {
    projected = at::linear(query, weight, bias);
  } else {
    const auto weights = weight.chunk(3);
    projected = at::cat(
                    {at::linear(query, weights[0]), at::linear(key, weights[1]),
                     at::linear(value, weights[2])},
                    2) +
                bias;
  }
  const auto [queries, keys, values] = split_heads(projected, heads);
  const auto scores = queries.matmul(keys.transpose(2, 3));
  auto weights = mask && mask->defined() ? masked_softmax(scores, mask->to(at::kBool), 3, mask_type)
                                         : scores.softmax(3);
  const auto context = weights.matmul(values).transpose(1, 2).reshape(query.sizes());
  auto result = at::linear(context, out_weight, out_bias);
  if (!need_weights) {
    return {result, Tensor()};
  }
  return {result, average_weights ? weights.mean(1) : weights};
}

Tensor encoder_layer(
    const Tensor& source, int64_t embedding, int64_t heads, const Tensor& weight,
    const Tensor& bias, const Tensor& out_weight, const Tensor& out_bias, bool use_gelu,
    bool norm_first, double eps, const Tensor& norm_weight_1, const Tensor& norm_bias_1,
    const Tensor& norm_weight_2, const Tensor& norm_bias_2, const Tensor& inner_weight,
    const Tensor& inner_bias, const Tensor& outer_weight, const Tensor& outer_bias,
    const OptionalTensor& mask, std::optional<int64_t> mask_type) {
  if (source.numel() == 0) {
    return source.clone();
  }
  const auto attend = [&](const Tensor& x) {
    return std::get<0>(attention(
        x, x, x, embedding, heads, weight, bias, out_weight, out_bias, mask, /*need_weights=*/false,
        /*average_weights=*/true, mask_type));
  };
  const auto feed_forward = [&](const Tensor& x) {
    const auto inner = at::linear(x, inner_weight, inner_bias);
    return at::linear(use_gelu ? at::gelu(inner) : at::relu(inner), outer_weight, outer_bias);
  };
  const auto norm_1 = [&](const Tensor& x) {
    return at::layer_norm(x, {embedding}, norm_weight_1, norm_bias_1, eps);
  };
  const auto norm_2 = [&](const Tensor& x) {
    return at::layer_norm(x, {embedding}, norm_weight_2, norm_bias_2, eps);
  };
  if (norm_first) {
    const auto x = source + attend(norm_1(source));
    return x + feed_forward(norm_2(x));
  }
  const auto x = norm_1(source + attend(source));
  return norm_2(x + feed_forward(x));
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_masked_softmax", TORCH_FN(masked_softmax));
  library.impl("_masked_softmax_backward", TORCH_FN(masked_softmax_backward));
  library.impl("_transform_bias_rescale_qkv", TORCH_FN(transform_bias_rescale_qkv));
  library.impl("_native_multi_head_attention", TORCH_FN(attention));
  library.impl("_transformer_encoder_layer_fwd", TORCH_FN(encoder_layer));
}

} // namespace ftm
