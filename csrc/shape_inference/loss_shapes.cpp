// What activations and losses return that have no structured kernel, and their gradients.
#include "shape_inference/loss_shapes.h"

#include <ATen/Operators.h>
#include <ATen/core/Reduction.h>

namespace ftm {
namespace {

using Optional = std::optional<at::Tensor>;
using Tensor = at::Tensor;

// Of as many elements as all tensors broadcast.
Known of_all(at::TensorList tensors) {
  const auto dtype = tensors.front().scalar_type();
  const bool known = of_one_float(dtype, {}) &&
                     std::all_of(tensors.begin(), tensors.end(), [&](const Tensor& tensor) {
                       return tensor.defined() && tensor.scalar_type() == dtype && tensor.is_meta();
                     });
  return known ? Known(elementwise(dtype, tensors)) : std::nullopt;
}

Known loss(const Tensor& input, const Tensor& target, int64_t reduction) {
  auto each = of_all({input, target});
  if (!each || reduction == at::Reduction::None) {
    return each;
  }
  return contiguous_meta({}, input.scalar_type());
}

Known activation(const Tensor& self) {
  return of_all(self);
}

Known clipped(const Tensor& self, const at::Scalar& low, const at::Scalar& high) {
  return low.isComplex() || high.isComplex() ? std::nullopt : of_all(self);
}

Known activation_backward(const Tensor& grad, const Tensor& self) {
  return of_all({grad, self});
}

Known clipped_backward(
    const Tensor& grad, const Tensor& self, const at::Scalar&, const at::Scalar&) {
  return of_all({grad, self});
}

Known mse_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target, int64_t) {
  return of_all({grad, input, target});
}

Known smooth_loss_backward(
    const Tensor& grad, const Tensor& input, const Tensor& target, int64_t, double beta) {
  return beta > 0 ? of_all({grad, input, target}) : std::nullopt;
}

// The same, into a tensor that has the size or none.
template <class Op>
Tensor& smooth_loss_backward_into(
    const Tensor& grad, const Tensor& input, const Tensor& target, int64_t reduction, double beta,
    Tensor& out) {
  return fit_written(out, smooth_loss_backward(grad, input, target, reduction, beta))
             ? out
             : Op::redispatch(kMetaKey, grad, input, target, reduction, beta, out);
}

Known huber_loss(const Tensor& input, const Tensor& target, int64_t reduction, double delta) {
  return delta > 0 ? loss(input, target, reduction) : std::nullopt;
}

Known binary_cross_entropy(
    const Tensor& input, const Tensor& target, const Optional& weight, int64_t reduction) {
  const bool plain = input.sizes() == target.sizes() && !is_there(weight);
  return plain ? loss(input, target, reduction) : std::nullopt;
}

Known binary_cross_entropy_backward(
    const Tensor& grad, const Tensor& input, const Tensor& target, const Optional& weight,
    int64_t) {
  const bool plain = input.sizes() == target.sizes() && !is_there(weight);
  return plain ? of_all({input, target, grad}) : std::nullopt;
}

} // namespace

void add_loss_shapes(ShapeTable& table) {
  add_known_calls<at::_ops::hardswish, &activation>(table);
  add_known_calls<at::_ops::hardtanh, &clipped>(table);
  add_known_calls<at::_ops::hardswish_backward, &activation_backward>(table);
  add_known_calls<at::_ops::mish_backward, &activation_backward>(table);
  add_known_calls<at::_ops::hardtanh_backward, &clipped_backward>(table);
  add_known_calls<at::_ops::mse_loss_backward, &mse_loss_backward>(table);
  add_known_calls<at::_ops::smooth_l1_loss_backward, &smooth_loss_backward>(table);
  add_known_calls<at::_ops::huber_loss_backward, &smooth_loss_backward>(table);
  using SmoothL1 = at::_ops::smooth_l1_loss_backward_grad_input;
  using Huber = at::_ops::huber_loss_backward_out;
  add_shape_function<SmoothL1>(table, &smooth_loss_backward_into<SmoothL1>);
  add_shape_function<Huber>(table, &smooth_loss_backward_into<Huber>);
  add_known_calls<at::_ops::huber_loss, &huber_loss>(table);
  add_known_calls<at::_ops::binary_cross_entropy, &binary_cross_entropy>(table);
  add_known_calls<at::_ops::binary_cross_entropy_backward, &binary_cross_entropy_backward>(table);
}

} // namespace ftm
