// Attention on DTensors. PyTorch can shard attention over heads, batches and the sequence (context
// parallelism), but only as one of the fused ops that GPUs have, not as the ops that it is
// otherwise composed of. So attention on DTensors is ATen's
// `_scaled_dot_product_efficient_attention` on ftm, too. Each process composes it, for its shard,
// of recorded ops.
#include "nn/widened.h"

#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <limits>
#include <tuple>

namespace ftm {
namespace {

namespace py = pybind11;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using FourTensors = std::tuple<Tensor, Tensor, Tensor, Tensor>;

constexpr double kMasked = -std::numeric_limits<double>::infinity();

bool is_dtensor(const Tensor& tensor) {
  if (!tensor.key_set().has(c10::DispatchKey::Python)) {
    return false;
  }
  const py::gil_scoped_acquire gil;
  const char* name = "torch.distributed.tensor";
  const py::dict modules = py::module_::import("sys").attr("modules");
  const auto object = py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
  return modules.contains(name) && py::isinstance(object, modules[name].attr("DTensor"));
}

// Returns which op `scaled_dot_product_attention` calls: a value of sdp::SDPBackend.
int64_t choose_attention(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor&,
    double dropout, bool, std::optional<double>, bool shares_heads) {
  const auto& settings = at::globalContext();
  // `sdpa_kernel` names kernels of GPUs. Each of them allows the fused op.
  const bool is_allowed = settings.userEnabledMemEfficientSDP() || settings.userEnabledFlashSDP() ||
                          settings.userEnabledCuDNNSDP();
  const bool is_supported =
      query.dim() == 4 && key.dim() == 4 && value.dim() == 4 && dropout == 0 && !shares_heads;
  const bool is_fused = is_allowed && is_supported && is_dtensor(query);
  return static_cast<int64_t>(
      is_fused ? sdp::SDPBackend::efficient_attention : sdp::SDPBackend::math);
}

double scale_of(const Tensor& query, std::optional<double> scale) {
  return scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
}

// Returns the scores before the softmax, [batch, heads, targets, sources]; of 16-bit floats in
// float32.
Tensor scores_of(
    const Tensor& query, const Tensor& key, const OptionalTensor& bias, bool is_causal,
    std::optional<double> scale) {
  Tensor scores =
      at::matmul(widened(query), widened(key).transpose(-2, -1)) * scale_of(query, scale);
  if (bias && bias->defined()) {
    scores = scores + *bias;
  }
  if (is_causal) {
    const auto options = query.options().dtype(at::kBool);
    const auto later = at::ones({query.size(-2), key.size(-2)}, options).triu(1);
    scores = scores.masked_fill(later, kMasked);
  }
  return scores;
}

// Returns exp(scores - logsumexp); 0 in rows that are masked as a whole.
Tensor normalized(const Tensor& scores, const Tensor& logsumexp) {
  return (scores - logsumexp.masked_fill(logsumexp == kMasked, 0).unsqueeze(-1)).exp();
}

// Returns [batch, heads, rows, width] with the strides of [batch, rows, heads, width]. PyTorch's
// meta kernels give results and gradients these, so that merging the heads again is a view. A
// DTensor takes its strides from them.
Tensor with_heads_inside(const Tensor& tensor) {
  return tensor.transpose(1, 2).contiguous().transpose(1, 2);
}

void check_dropout(double dropout) {
  TORCH_CHECK_NOT_IMPLEMENTED(dropout == 0, "fused attention on ftm has no dropout");
}

// Returns (result, logsumexp of the scores, seed, offset). There is no dropout, so the last two are
// 0. Unlike GPUs', `logsumexp` has no padding: [batch, heads, targets].
FourTensors efficient_attention(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& bias,
    bool needs_logsumexp, double dropout, bool is_causal, std::optional<double> scale) {
  check_dropout(dropout);
  const auto scores = scores_of(query, key, bias, is_causal, scale);
  const auto logsumexp = at::logsumexp(scores, {-1});
  const auto result = at::matmul(normalized(scores, logsumexp), widened(value));
  const auto unused = at::zeros({}, query.options().dtype(at::kLong));
  return {
      with_heads_inside(result.to(query.scalar_type())),
      needs_logsumexp ? logsumexp : logsumexp.new_empty({query.size(0), query.size(1), 0}), unused,
      unused.clone()};
}

// Returns the gradients of query, key, value and bias. With context parallelism, `key` and `value`
// are those of one process, and `result` and `logsumexp` those of all sources.
FourTensors efficient_attention_backward(
    const Tensor& grad_result, const Tensor& query, const Tensor& key, const Tensor& value,
    const Tensor& bias, const Tensor& result, const Tensor& logsumexp, const Tensor&, const Tensor&,
    double dropout, std::array<bool, 4> needed, bool is_causal, std::optional<double> scale) {
  check_dropout(dropout);
  if (!grad_result.defined()) {
    return {};
  }
  const auto weights = normalized(scores_of(query, key, bias, is_causal, scale), logsumexp);
  const auto grad = widened(grad_result);
  const auto grad_weights = at::matmul(grad, widened(value).transpose(-2, -1));
  const auto mean = (grad * widened(result)).sum(-1, /*keepdim=*/true);
  const auto grad_scores = weights * (grad_weights - mean);
  const auto scaled = grad_scores * scale_of(query, scale);
  const auto gradient = [&](const Tensor& value) {
    return with_heads_inside(value.to(query.scalar_type()));
  };
  return {
      needed[0] ? gradient(at::matmul(scaled, widened(key))) : Tensor(),
      needed[1] ? gradient(at::matmul(scaled.transpose(-2, -1), widened(query))) : Tensor(),
      needed[2] ? gradient(at::matmul(weights.transpose(-2, -1), grad)) : Tensor(),
      needed[3] && bias.defined() ? at::sum_to(grad_scores, bias.sizes()).to(bias.scalar_type())
                                  : Tensor()};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_scaled_dot_product_efficient_attention", TORCH_FN(efficient_attention));
  library.impl(
      "_scaled_dot_product_efficient_attention_backward", TORCH_FN(efficient_attention_backward));
}

} // namespace ftm

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &ftm::choose_attention)
} // namespace at::native
