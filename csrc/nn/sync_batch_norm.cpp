// The parts of batch norm over several processes. Between them, torch.nn.SyncBatchNorm exchanges
// the statistics of the processes with collectives. ATen has kernels of these ops for GPUs only.
#include "nn/widened.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/var_mean.h>
#include <torch/library.h>

namespace ftm {
namespace {

using Optional = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Returns the dimensions that a channel's statistics are taken over: all but the second.
std::vector<int64_t> reduced_dims(const at::Tensor& input) {
  std::vector<int64_t> dims{0};
  for (int64_t dim = 2; dim < input.dim(); ++dim) {
    dims.push_back(dim);
  }
  return dims;
}

// Returns a number of each channel in a shape that broadcasts to `input`.
at::Tensor by_channel(const at::Tensor& numbers, const at::Tensor& input) {
  std::vector<int64_t> sizes(input.dim(), 1);
  sizes[1] = numbers.numel();
  return numbers.reshape(sizes);
}

// Returns the mean and 1 / sqrt(variance + eps) of each channel.
Two batch_norm_stats(const at::Tensor& input, double eps) {
  auto [variance, mean] = at::var_mean(
      widened(input), reduced_dims(input), /*correction=*/at::Scalar(0), /*keepdim=*/false);
  at::Tensor deviation = (variance + eps).rsqrt();
  if (eps == 0) { // a constant channel becomes 0, as on GPUs
    deviation = deviation.masked_fill(variance == 0, 0);
  }
  return {mean, deviation};
}

void update_running(const Optional& running, const at::Tensor& current, double momentum) {
  if (running.has_value() && running->defined()) {
    running->copy_(*running * (1 - momentum) + current * momentum);
  }
}

// Joins the results of batch_norm_stats of all processes, a row of `mean` and `deviation` for each.
// `counts` has the number of elements of a channel for each process.
Two batch_norm_gather_stats_with_counts(
    const at::Tensor&, const at::Tensor& mean, const at::Tensor& deviation,
    const Optional& running_mean, const Optional& running_var, double momentum, double eps,
    const at::Tensor& counts) {
  const at::Tensor count = counts.to(mean.scalar_type()).unsqueeze(1);
  const at::Tensor total = count.sum();
  const at::Tensor common = (mean * count).sum(0) / total;
  const at::Tensor variances = deviation.square().reciprocal() - eps;
  const at::Tensor squares = ((variances + (mean - common).square()) * count).sum(0);
  update_running(running_mean, common, momentum);
  update_running(running_var, squares / (total - 1), momentum);
  return {common, (squares / total + eps).rsqrt()};
}

at::Tensor batch_norm_elemt(
    const at::Tensor& input, const Optional& weight, const Optional& bias, const at::Tensor& mean,
    const at::Tensor& deviation, double) {
  at::Tensor result = (widened(input) - by_channel(mean, input)) * by_channel(deviation, input);
  if (weight.has_value() && weight->defined()) {
    result = result * by_channel(*weight, input);
  }
  if (bias.has_value() && bias->defined()) {
    result = result + by_channel(*bias, input);
  }
  return result.to(input.scalar_type());
}

Four batch_norm_backward_reduce(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean,
    const at::Tensor& deviation, const Optional& weight, bool needs_input, bool needs_weight,
    bool needs_bias) {
  const auto dims = reduced_dims(input);
  const at::Tensor wide = widened(grad);
  const at::Tensor sum = wide.sum(dims);
  const at::Tensor product = (wide * (widened(input) - by_channel(mean, input))).sum(dims);
  const auto dtype =
      weight.has_value() && weight->defined() ? weight->scalar_type() : input.scalar_type();
  return {
      needs_input ? sum : at::Tensor(), needs_input ? product : at::Tensor(),
      needs_weight ? (product * deviation).to(dtype) : at::Tensor(),
      needs_bias ? sum.to(dtype) : at::Tensor()};
}

// `sum` and `product` are those of batch_norm_backward_reduce, added over all processes.
at::Tensor batch_norm_backward_elemt(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean,
    const at::Tensor& deviation, const Optional& weight, const at::Tensor& sum,
    const at::Tensor& product, const at::Tensor& counts) {
  const at::Tensor total = counts.sum().to(mean.scalar_type());
  at::Tensor factor = deviation;
  if (weight.has_value() && weight->defined()) {
    factor = factor * *weight;
  }
  const at::Tensor slope = product / total * deviation.square();
  const at::Tensor centered = widened(input) - by_channel(mean, input);
  const at::Tensor result =
      (widened(grad) - by_channel(sum / total, input) - centered * by_channel(slope, input)) *
      by_channel(factor, input);
  return result.to(input.scalar_type());
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("batch_norm_stats", TORCH_FN(batch_norm_stats));
  library.impl(
      "batch_norm_gather_stats_with_counts", TORCH_FN(batch_norm_gather_stats_with_counts));
  library.impl("batch_norm_elemt", TORCH_FN(batch_norm_elemt));
  library.impl("batch_norm_backward_reduce", TORCH_FN(batch_norm_backward_reduce));
  library.impl("batch_norm_backward_elemt", TORCH_FN(batch_norm_backward_elemt));
}

} // namespace ftm
