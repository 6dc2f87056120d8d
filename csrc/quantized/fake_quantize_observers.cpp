// Observers of quantization-aware training. They write their state as well as two results, so the
// recorder cannot derive the functional variant; and per-channel observers get their sizes from the
// first values.
#include "dispatch/cpu_fallback.h"
#include "dispatch/record.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <limits>

namespace ftm {
namespace {

std::tuple<at::Tensor, at::Tensor> observe_and_fake_quantize(
    const at::Tensor& self, const at::Tensor& observer_on, const at::Tensor& fake_quant_on,
    at::Tensor& running_min, at::Tensor& running_max, at::Tensor& scale, at::Tensor& zero_point,
    double averaging_const, int64_t quant_min, int64_t quant_max, int64_t ch_axis,
    bool per_row_fake_quant, bool symmetric_quant) {
  TORCH_CHECK(
      ch_axis < self.dim(),
      "Error in fused_moving_avg_obs_fake_quant_cpu: ch_axis must be < self.dim()");
  if (per_row_fake_quant && running_min.numel() == 0) {
    const int64_t channels = self.size(ch_axis);
    running_min.resize_(channels).fill_(std::numeric_limits<float>::infinity());
    running_max.resize_(channels).fill_(-std::numeric_limits<float>::infinity());
    scale.resize_(channels);
    zero_point.resize_(channels);
  }
  torch::jit::Stack stack = {self,    observer_on,        fake_quant_on,   running_min, running_max,
                             scale,   zero_point,         averaging_const, quant_min,   quant_max,
                             ch_axis, per_row_fake_quant, symmetric_quant};
  // Eager raises an error, but only while it observes, which depends on a tensor's value.
  if (per_row_fake_quant && ch_axis != 0) {
    run_fallback(op_named("aten::_fused_moving_avg_obs_fq_helper"), &stack);
    return {stack[0].toTensor(), stack[1].toTensor()};
  }
  record(op_named("aten::_fused_moving_avg_obs_fq_helper_functional"), &stack);
  running_min.copy_(stack[2].toTensor());
  running_max.copy_(stack[3].toTensor());
  scale.copy_(stack[4].toTensor());
  zero_point.copy_(stack[5].toTensor());
  return {stack[0].toTensor(), stack[1].toTensor()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_fused_moving_avg_obs_fq_helper", TORCH_FN(observe_and_fake_quantize));
}

} // namespace
} // namespace ftm
