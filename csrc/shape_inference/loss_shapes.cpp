// Shape functions of activations and losses without a structured kernel, and of their gradients.
#include "shape_inference/loss_shapes.h"

#include <ATen/Operators.h>
#include <ATen/core/Reduction.h>

namespace ftm {
namespace {

using Optional = std::optional<at::Tensor>;
using Tensor = at::Tensor;

// Returns the elementwise result of tensors that all have the same floating-point dtype.
MetaResult broadcast(at::TensorList tensors) {
  const auto dtype = tensors.front().scalar_type();
  const bool is_supported =
      is_all_of_float({}, dtype) &&
      std::all_of(tensors.begin(), tensors.end(), [&](const Tensor& tensor) {
        return tensor.defined() && tensor.scalar_type() == dtype && tensor.is_meta();
      });
  return is_supported ? MetaResult(elementwise(dtype, tensors)) : std::nullopt;
}

MetaResult loss(const Tensor& input, const Tensor& target, int64_t reduction) {
  auto unreduced = broadcast({input, target});
  if (!unreduced || reduction == at::Reduction::None) {
    return unreduced;
  }
  return contiguous_meta({}, input.scalar_type());
}

MetaResult activation(const Tensor& self) {
  return broadcast(self);
}

MetaResult hardtanh(const Tensor& self, const at::Scalar& low, const at::Scalar& high) {
  return low.isComplex() || high.isComplex() ? std::nullopt : broadcast(self);
}

MetaResult activation_backward(const Tensor& grad, const Tensor& self) {
  return broadcast({grad, self});
}

MetaResult hardtanh_backward(
    const Tensor& grad, const Tensor& self, const at::Scalar&, const at::Scalar&) {
  return broadcast({grad, self});
}

MetaResult mse_loss_backward(
    const Tensor& grad, const Tensor& input, const Tensor& target, int64_t) {
  return broadcast({grad, input, target});
}

MetaResult smooth_loss_backward(
    const Tensor& grad, const Tensor& input, const Tensor& target, int64_t, double beta) {
  return beta > 0 ? broadcast({grad, input, target}) : std::nullopt;
}

// The out= variant.
template <class Op>
Tensor& smooth_loss_backward_out(
    const Tensor& grad, const Tensor& input, const Tensor& target, int64_t reduction, double beta,
    Tensor& out) {
  return resize_out(out, smooth_loss_backward(grad, input, target, reduction, beta))
             ? out
             : Op::redispatch(kMetaKey, grad, input, target, reduction, beta, out);
}

MetaResult huber_loss(const Tensor& input, const Tensor& target, int64_t reduction, double delta) {
  return delta > 0 ? loss(input, target, reduction) : std::nullopt;
}

MetaResult binary_cross_entropy(
    const Tensor& input, const Tensor& target, const Optional& weight, int64_t reduction) {
  const bool is_supported = input.sizes() == target.sizes() && !is_defined(weight);
  return is_supported ? loss(input, target, reduction) : std::nullopt;
}

MetaResult binary_cross_entropy_backward(
    const Tensor& grad, const Tensor& input, const Tensor& target, const Optional& weight,
    int64_t) {
  const bool is_supported = input.sizes() == target.sizes() && !is_defined(weight);
  return is_supported ? broadcast({input, target, grad}) : std::nullopt;
}

} // namespace

void add_loss_shapes(ShapeTable& table) {
  add_partial_function<at::_ops::hardswish, &activation>(table);
  add_partial_function<at::_ops::hardtanh, &ftm::hardtanh>(table);
  add_partial_function<at::_ops::hardswish_backward, &activation_backward>(table);
  add_partial_function<at::_ops::mish_backward, &activation_backward>(table);
  add_partial_function<at::_ops::hardtanh_backward, &ftm::hardtanh_backward>(table);
  add_partial_function<at::_ops::mse_loss_backward, &mse_loss_backward>(table);
  add_partial_function<at::_ops::smooth_l1_loss_backward, &smooth_loss_backward>(table);
  add_partial_function<at::_ops::huber_loss_backward, &smooth_loss_backward>(table);
  using SmoothL1 = at::_ops::smooth_l1_loss_backward_grad_input;
  using Huber = at::_ops::huber_loss_backward_out;
  add_shape_function<SmoothL1>(table, &smooth_loss_backward_out<SmoothL1>);
  add_shape_function<Huber>(table, &smooth_loss_backward_out<Huber>);
  add_partial_function<at::_ops::huber_loss, &huber_loss>(table);
  add_partial_function<at::_ops::binary_cross_entropy, &binary_cross_entropy>(table);
  add_partial_function<at::_ops::binary_cross_entropy_backward, &binary_cross_entropy_backward>(
      table);
}

} // namespace ftm
