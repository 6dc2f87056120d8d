// Batch norm: `native_batch_norm` changes its running statistics without saying so in its schema, so
// recording cannot derive its functional form. These kernels pick the form and write the statistics.
#include "record.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace ftm {
namespace {

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Optional = std::optional<at::Tensor>;

std::vector<at::Tensor> call(const char* name, torch::jit::Stack stack) {
  record(op_named(name), &stack);
  std::vector<at::Tensor> results;
  for (const auto& result : stack) {
    results.push_back(result.toTensor());
  }
  return results;
}

bool given(const Optional& tensor) {
  return tensor && tensor->defined();
}

Three batch_norm(
    const at::Tensor& input, const Optional& weight, const Optional& bias, const Optional& running_mean,
    const Optional& running_var, bool training, double momentum, double eps) {
  if (!training) {
    const auto results = call(
        "aten::_native_batch_norm_legit_no_training",
        {input, weight, bias, running_mean.value(), running_var.value(), momentum, eps});
    return {results[0], results[1], results[2]};
  }
  if (!given(running_mean) || !given(running_var)) {
    const auto results = call(
        "aten::_native_batch_norm_legit.no_stats", {input, weight, bias, training, momentum, eps});
    return {results[0], results[1], results[2]};
  }
  const auto results = call(
      "aten::_native_batch_norm_legit_functional",
      {input, weight, bias, *running_mean, *running_var, training, momentum, eps});
  at::Tensor mean = *running_mean;
  at::Tensor var = *running_var;
  mean.copy_(results[3]);
  var.copy_(results[4]);
  return {results[0], results[1], results[2]};
}

Three native_batch_norm(
    const at::Tensor& input, const Optional& weight, const Optional& bias, const Optional& running_mean,
    const Optional& running_var, bool training, double momentum, double eps) {
  return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

Three native_batch_norm_legit(
    const at::Tensor& input, const Optional& weight, const Optional& bias, at::Tensor& running_mean,
    at::Tensor& running_var, bool training, double momentum, double eps) {
  return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("native_batch_norm", TORCH_FN(native_batch_norm));
  library.impl("_native_batch_norm_legit", TORCH_FN(native_batch_norm_legit));
}

} // namespace ftm
