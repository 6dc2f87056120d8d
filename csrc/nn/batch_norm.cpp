// Batch norm. `native_batch_norm` updates its running statistics, which its schema does not
// declare, so the recorder cannot derive its functional variant. These kernels choose the variant
// and write the statistics. In evaluation they return empty batch statistics, as the CPU does.
#include "dispatch/record.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <torch/library.h>

namespace ftm {
namespace {

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Optional = std::optional<at::Tensor>;

std::vector<at::Tensor> call(const char* name, torch::jit::Stack stack) {
  record(op_named(name), &stack);
  std::vector<at::Tensor> results;
  for (const auto& result : stack) {
    results.push_back(result.toTensor());
  }
  return results;
}

Three batch_norm(
    const at::Tensor& input, const Optional& weight, const Optional& bias,
    const Optional& running_mean, const Optional& running_var, bool training, double momentum,
    double eps) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      at::isFloatingType(input.scalar_type()), "\"batch_norm\" not implemented for '",
      input.scalar_type(), "'");
  at::Tensor mean = running_mean.value_or(at::Tensor());
  at::Tensor var = running_var.value_or(at::Tensor());
  if (!training) {
    TORCH_CHECK(mean.defined(), "running_mean must be defined in evaluation mode");
    TORCH_CHECK(var.defined(), "running_var must be defined in evaluation mode");
    const auto results = call(
        "aten::_native_batch_norm_legit_no_training",
        {input, weight, bias, mean, var, momentum, eps});
    return {results[0], input.new_empty({0}), input.new_empty({0})};
  }
  if (!mean.defined() || !var.defined()) {
    const auto results = call(
        "aten::_native_batch_norm_legit.no_stats", {input, weight, bias, training, momentum, eps});
    return {results[0], results[1], results[2]};
  }
  // Before anything is written: the CPU's threads would update an element for several channels.
  at::assert_no_internal_overlap(mean);
  at::assert_no_internal_overlap(var);
  const auto results = call(
      "aten::_native_batch_norm_legit_functional",
      {input, weight, bias, mean, var, training, momentum, eps});
  mean.copy_(results[3]);
  var.copy_(results[4]);
  return {results[0], results[1], results[2]};
}

Three native_batch_norm(
    const at::Tensor& input, const Optional& weight, const Optional& bias,
    const Optional& running_mean, const Optional& running_var, bool training, double momentum,
    double eps) {
  return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

Three native_batch_norm_legit(
    const at::Tensor& input, const Optional& weight, const Optional& bias, at::Tensor& running_mean,
    at::Tensor& running_var, bool training, double momentum, double eps) {
  return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

Three native_batch_norm_legit_no_training(
    const at::Tensor& input, const Optional& weight, const Optional& bias,
    const at::Tensor& running_mean, const at::Tensor& running_var, double momentum, double eps) {
  return batch_norm(
      input, weight, bias, running_mean, running_var, /*training=*/false, momentum, eps);
}

// The fourth result is a workspace, which only other devices use.
Four with_workspace(const at::Tensor& input, Three results) {
  auto& [out, mean, deviation] = results;
  return {out, mean, deviation, input.new_empty({0}, input.options().dtype(at::kByte))};
}

Four batch_norm_with_update(
    const at::Tensor& input, const Optional& weight, const Optional& bias, at::Tensor& running_mean,
    at::Tensor& running_var, double momentum, double eps) {
  return with_workspace(
      input,
      batch_norm(input, weight, bias, running_mean, running_var, /*training=*/true, momentum, eps));
}

Four batch_norm_no_update(
    const at::Tensor& input, const Optional& weight, const Optional& bias,
    const Optional& running_mean, const Optional& running_var, double momentum, double eps) {
  return with_workspace(
      input,
      batch_norm(
          input, weight, bias, running_mean, running_var, /*training=*/false, momentum, eps));
}

void check_dtype(const at::Tensor& out, at::ScalarType expected) {
  TORCH_CHECK(
      out.scalar_type() == expected, "expected scalar type ", expected, " but found ",
      out.scalar_type());
}

void write_out(const at::Tensor& result, at::Tensor& out) {
  check_dtype(out, result.scalar_type());
  at::native::resize_output(out, result.sizes());
  out.copy_(result);
}

using ThreeOut = std::tuple<at::Tensor&, at::Tensor&, at::Tensor&>;
using FourOut = std::tuple<at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&>;

// In evaluation, `mean` and `deviation` are not written.
ThreeOut batch_norm_out(
    const at::Tensor& input, const Optional& weight, const Optional& bias,
    const Optional& running_mean, const Optional& running_var, bool training, double momentum,
    double eps, at::Tensor& out, at::Tensor& mean, at::Tensor& deviation) {
  check_dtype(out, input.scalar_type()); // before the running statistics are written
  const auto results =
      batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
  write_out(std::get<0>(results), out);
  if (training) {
    write_out(std::get<1>(results), mean);
    write_out(std::get<2>(results), deviation);
  }
  return {out, mean, deviation};
}

ThreeOut native_batch_norm_legit_out(
    const at::Tensor& input, const Optional& weight, const Optional& bias, at::Tensor& running_mean,
    at::Tensor& running_var, bool training, double momentum, double eps, at::Tensor& out,
    at::Tensor& mean, at::Tensor& deviation) {
  return batch_norm_out(
      input, weight, bias, running_mean, running_var, training, momentum, eps, out, mean,
      deviation);
}

FourOut batch_norm_with_update_out(
    const at::Tensor& input, const Optional& weight, const Optional& bias, at::Tensor& running_mean,
    at::Tensor& running_var, double momentum, double eps, at::Tensor& out, at::Tensor& mean,
    at::Tensor& deviation, at::Tensor& workspace) {
  batch_norm_out(
      input, weight, bias, running_mean, running_var, /*training=*/true, momentum, eps, out, mean,
      deviation);
  return {out, mean, deviation, workspace};
}

Three batch_norm_backward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
    const Optional& running_mean, const Optional& running_var, const Optional& mean,
    const Optional& deviation, bool update, double eps, std::array<bool, 3> mask,
    const at::Tensor& /*workspace*/) {
  return at::native_batch_norm_backward(
      grad, input, weight, running_mean, running_var, mean, deviation, update, eps, mask);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("native_batch_norm", TORCH_FN(native_batch_norm));
  library.impl("native_batch_norm.out", TORCH_FN(batch_norm_out));
  library.impl("_native_batch_norm_legit.out", TORCH_FN(native_batch_norm_legit_out));
  library.impl("_batch_norm_with_update.out", TORCH_FN(batch_norm_with_update_out));
  library.impl("_native_batch_norm_legit", TORCH_FN(native_batch_norm_legit));
  library.impl(
      "_native_batch_norm_legit_no_training", TORCH_FN(native_batch_norm_legit_no_training));
  library.impl("_batch_norm_with_update", TORCH_FN(batch_norm_with_update));
  library.impl("_batch_norm_no_update", TORCH_FN(batch_norm_no_update));
  library.impl("batch_norm_backward", TORCH_FN(batch_norm_backward));
}

} // namespace ftm
