// Optimizer and gradient scaler ops that write to lists of tensors. Traces have no functional
// variant of them, so their computation is recorded tensor by tensor.
#include "dispatch/record.h"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

namespace ftm {
namespace {

using MaybeTensor = std::optional<at::Tensor>;

// A learning rate: a number, or a 0-dim tensor. On the CPU, a tensor is a number that may change at
// each step.
struct Rate {
  explicit Rate(double number) : number(number) {}
  explicit Rate(const at::Tensor& rate) {
    if (rate.is_cpu()) {
      number = rate.item();
    } else {
      tensor = rate;
    }
  }
  at::Tensor times(const at::Tensor& value) const {
    return tensor.defined() ? value * tensor : value * number;
  }

  at::Scalar number;
  at::Tensor tensor;
};

// Gradient scaling in a fused step: gradients are divided by the scale, and nothing is written if
// one of them was not finite.
class Scaling {
 public:
  Scaling(const MaybeTensor& scale, const MaybeTensor& found_inf) : scale_(scale) {
    if (found_inf && found_inf->defined()) {
      skip_ = found_inf->reshape({}).eq(1);
    }
  }

  // Returns the gradient in the compute dtype, unscaled, negated to maximize, and with weight decay
  // added.
  at::Tensor gradient(
      const at::Tensor& stored, bool maximize, const at::Tensor& parameter, double decay) const {
    at::Tensor gradient = wide(stored);
    if (scale_ && scale_->defined()) {
      gradient = gradient / *scale_;
      assign(stored, gradient);
    }
    gradient = maximize ? gradient.neg() : gradient;
    return decay != 0 ? gradient + parameter * decay : gradient;
  }

  // Writes the value, unless the step is skipped.
  void assign(const at::Tensor& target, const at::Tensor& value) const {
    const at::Tensor stored = value.to(target.scalar_type());
    at::Tensor(target).copy_(skip_.defined() ? at::where(skip_, target, stored) : stored);
  }

  static at::Tensor wide(const at::Tensor& tensor) {
    return tensor.to(at::toOpMathType(tensor.scalar_type()));
  }

 private:
  MaybeTensor scale_;
  at::Tensor skip_; // true: write nothing
};

struct AdamOptions {
  Rate rate;
  double beta1, beta2, weight_decay, eps;
  bool amsgrad, maximize;
  bool decoupled; // weight decay as in AdamW
};

void adam(
    at::TensorList parameters, at::TensorList gradients, at::TensorList averages,
    at::TensorList squares, at::TensorList maxima, at::TensorList steps, const AdamOptions& options,
    const Scaling& scaling) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor parameter = Scaling::wide(parameters[i]);
    const at::Tensor gradient = scaling.gradient(
        gradients[i], options.maximize, parameter, options.decoupled ? 0 : options.weight_decay);
    if (options.decoupled && options.weight_decay != 0) {
      parameter = parameter - options.rate.times(parameter * options.weight_decay);
    }
    const at::Tensor average = Scaling::wide(averages[i]).lerp(gradient, 1 - options.beta1);
    const at::Tensor square =
        Scaling::wide(squares[i]) * options.beta2 + gradient * gradient * (1 - options.beta2);
    scaling.assign(averages[i], average);
    scaling.assign(squares[i], square);
    at::Tensor largest = square;
    if (options.amsgrad) {
      largest = at::maximum(Scaling::wide(maxima[i]), square);
      scaling.assign(maxima[i], largest);
    }
    const at::Tensor step = steps[i].reshape({}).to(at::kDouble);
    const at::Tensor size = options.rate.times((1 - at::pow(options.beta1, step)).reciprocal());
    const at::Tensor root = (1 - at::pow(options.beta2, step)).sqrt();
    scaling.assign(
        parameters[i], parameter - average * size / (largest.sqrt() / root + options.eps));
  }
}

template <typename Number, bool decoupled>
void fused_adam(
    at::TensorList parameters, at::TensorList gradients, at::TensorList averages,
    at::TensorList squares, at::TensorList maxima, at::TensorList steps, Number rate, double beta1,
    double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
    const MaybeTensor& scale, const MaybeTensor& found_inf) {
  adam(
      parameters, gradients, averages, squares, maxima, steps,
      {Rate(rate), beta1, beta2, weight_decay, eps, amsgrad, maximize, decoupled},
      Scaling(scale, found_inf));
}

template <typename Number>
void fused_sgd(
    at::TensorList parameters, at::TensorList gradients, at::TensorList momenta,
    double weight_decay, double momentum, Number rate, double dampening, bool nesterov,
    bool maximize, bool is_first_step, const MaybeTensor& scale, const MaybeTensor& found_inf) {
  const Rate step(rate);
  const Scaling scaling(scale, found_inf);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor parameter = Scaling::wide(parameters[i]);
    at::Tensor gradient = scaling.gradient(gradients[i], maximize, parameter, weight_decay);
    if (momentum != 0) {
      const at::Tensor moving =
          is_first_step ? gradient
                        : Scaling::wide(momenta[i]) * momentum + gradient * (1 - dampening);
      scaling.assign(momenta[i], moving);
      gradient = nesterov ? gradient + moving * momentum : moving;
    }
    scaling.assign(parameters[i], parameter - step.times(gradient));
  }
}

template <typename Number>
void fused_adagrad(
    at::TensorList parameters, at::TensorList gradients, at::TensorList sums, at::TensorList steps,
    Number rate, double rate_decay, double weight_decay, double eps, bool maximize,
    const MaybeTensor& scale, const MaybeTensor& found_inf) {
  const Rate start(rate);
  const Scaling scaling(scale, found_inf);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor parameter = Scaling::wide(parameters[i]);
    const at::Tensor gradient = scaling.gradient(gradients[i], maximize, parameter, weight_decay);
    const at::Tensor sum = Scaling::wide(sums[i]) + gradient * gradient;
    scaling.assign(sums[i], sum);
    const at::Tensor step = steps[i].reshape({}).to(at::kDouble);
    const at::Tensor size = start.times(((step - 1) * rate_decay + 1).reciprocal());
    scaling.assign(parameters[i], parameter - gradient * size / (sum.sqrt() + eps));
  }
}

void check_and_unscale(
    at::TensorList gradients, at::Tensor& found_inf, const at::Tensor& inverse_scale) {
  TORCH_CHECK(inverse_scale.numel() == 1, "inv_scale must be a 1-element tensor.");
  TORCH_CHECK(found_inf.numel() == 1, "found_inf must be a 1-element tensor.");
  TORCH_CHECK(found_inf.scalar_type() == at::kFloat, "found_inf must be a float tensor.");
  for (const at::Tensor& gradient : gradients) {
    const at::Tensor infinite = at::isfinite(gradient).all().logical_not();
    found_inf.copy_(at::where(infinite, 1.0, found_inf));
    gradient.mul_(inverse_scale.reshape({}));
  }
}

at::Tensor& update_scale(
    at::Tensor& scale, at::Tensor& growth_tracker, const at::Tensor& found_inf, double growth,
    double backoff, int64_t interval) {
  TORCH_CHECK(growth_tracker.numel() == 1, "growth_tracker must be a 1-element tensor.");
  TORCH_CHECK(scale.numel() == 1, "current_scale must be a 1-element tensor.");
  TORCH_CHECK(found_inf.numel() == 1, "found_inf must be a 1-element tensor.");
  const at::Tensor bad = found_inf.reshape(scale.sizes()).ne(0);
  const at::Tensor steps = growth_tracker + 1; // good steps in a row
  const at::Tensor full = steps.eq(interval);
  const at::Tensor grown = scale * growth;
  const at::Tensor kept = at::where(full.logical_and(at::isfinite(grown)), grown, scale);
  scale.copy_(at::where(bad, scale * backoff, kept));
  growth_tracker.copy_(at::where(bad.logical_or(full), 0, steps));
  return scale;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_fused_adam_", TORCH_FN((fused_adam<double, false>)));
  library.impl("_fused_adam_.tensor_lr", TORCH_FN((fused_adam<const at::Tensor&, false>)));
  library.impl("_fused_adamw_", TORCH_FN((fused_adam<double, true>)));
  library.impl("_fused_adamw_.tensor_lr", TORCH_FN((fused_adam<const at::Tensor&, true>)));
  library.impl("_fused_sgd_", TORCH_FN(fused_sgd<double>));
  library.impl("_fused_sgd_.tensor_lr", TORCH_FN(fused_sgd<const at::Tensor&>));
  library.impl("_fused_adagrad_", TORCH_FN(fused_adagrad<double>));
  library.impl("_fused_adagrad_.tensor_lr", TORCH_FN(fused_adagrad<const at::Tensor&>));
  library.impl("_amp_foreach_non_finite_check_and_unscale_", TORCH_FN(check_and_unscale));
  library.impl("_amp_update_scale_", TORCH_FN(update_scale));
}

} // namespace ftm
