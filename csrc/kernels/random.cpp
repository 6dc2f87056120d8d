// Random ops that are composed of others: rrelu, which also writes its noise; and draws of complex
// numbers, whose parts are drawn as real numbers.
#include "dispatch/record.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

namespace ftm {
namespace {

using MaybeGenerator = std::optional<at::Generator>;

at::Tensor rrelu(
    const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
    bool training, MaybeGenerator generator) {
  TORCH_CHECK(
      self.sym_sizes() == noise.sym_sizes(),
      "noise tensor shape must match self tensor shape. Got self.shape = ", self.sym_sizes(),
      " noise.shape = ", noise.sym_sizes());
  const double low = lower.toDouble();
  const double high = upper.toDouble();
  if (!training) {
    return at::leaky_relu(self, (low + high) / 2);
  }
  TORCH_CHECK(low <= high, "Lower bound should be less than or equal to the upper bound");
  const auto slopes = at::empty_like(self).uniform_(low, high, std::move(generator));
  noise.copy_(at::where(self.le(0), slopes, 1));
  return self.mul(noise);
}

at::Tensor& rrelu_(
    at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
    bool training, MaybeGenerator generator) {
  return self.copy_(rrelu(self, noise, lower, upper, training, std::move(generator)));
}

at::Tensor& rrelu_out(
    const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
    bool training, MaybeGenerator generator, at::Tensor& out) {
  const auto result = rrelu(self, noise, lower, upper, training, std::move(generator));
  return out.resize_(result.sizes()).copy_(result);
}

// `out` may have any dtype, which the functional variant does not support.
at::Tensor& bernoulli_out(const at::Tensor& self, MaybeGenerator generator, at::Tensor& out) {
  return out.resize_(self.sizes()).bernoulli_(self, std::move(generator));
}

// A complex tensor is drawn as its real view.
at::Tensor& draw_uniform(at::Tensor& self, double from, double to, MaybeGenerator generator) {
  if (self.is_complex()) {
    at::view_as_real(self).uniform_(from, to, std::move(generator));
    return self;
  }
  static Op& op = op_named("aten::uniform_");
  torch::jit::Stack stack{self, from, to, std::move(generator)};
  record(op, &stack);
  return self;
}

at::Tensor& draw_normal(at::Tensor& self, double mean, double deviation, MaybeGenerator generator) {
  if (self.is_complex()) {
    // Both parts have the mean; the variance is split between them.
    at::view_as_real(self).normal_(mean, deviation * M_SQRT1_2, std::move(generator));
    return self;
  }
  static Op& op = op_named("aten::normal_");
  torch::jit::Stack stack{self, mean, deviation, std::move(generator)};
  record(op, &stack);
  return self;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("rrelu_with_noise", TORCH_FN(rrelu));
  library.impl("rrelu_with_noise_", TORCH_FN(rrelu_));
  library.impl("rrelu_with_noise.out", TORCH_FN(rrelu_out));
  library.impl("bernoulli.out", TORCH_FN(bernoulli_out));
  library.impl("uniform_", TORCH_FN(draw_uniform));
  library.impl("normal_", TORCH_FN(draw_normal));
}

} // namespace ftm
