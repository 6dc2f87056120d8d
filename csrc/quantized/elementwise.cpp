// Elementwise operations on quantized tensors, operations that select elements, and others that
// compute with dequantized values.
#include "quantized/boxed_kernels.h"
#include "quantized/quantized_tensor.h"

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/max_pool1d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <ATen/quantized/QTensorImpl.h>
#include <torch/library.h>

#include <initializer_list>

namespace ftm {
namespace {

// --- many ops at once, by their schemas for plain tensors ---

template <typename Replace>
void replace_quantized(torch::jit::Stack& stack, size_t base, const Replace& replace) {
  for (size_t i = base; i < stack.size(); ++i) {
    if (stack[i].isTensor() && stack[i].toTensor().defined() &&
        stack[i].toTensor().is_quantized()) {
      stack[i] = replace(stack[i].toTensor());
    }
  }
}

size_t arguments_begin(const c10::OperatorHandle& handle, const torch::jit::Stack& stack) {
  return stack.size() - handle.schema().arguments().size();
}

// Kernel of ops that move or compare integers. Order and position are the same for the integers as
// for the values.
void on_integers(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const size_t base = arguments_begin(handle, *stack);
  const at::Tensor self = (*stack)[base].toTensor();
  check_per_tensor(handle.schema().name().c_str(), self);
  replace_quantized(*stack, base, integers_of);
  handle.callBoxed(*stack);
  const auto integers = integer_dtype(self.scalar_type());
  for (size_t i = base; i < stack->size(); ++i) {
    const at::Tensor result = (*stack)[i].toTensor();
    if (result.scalar_type() == integers && result.is_privateuseone()) {
      (*stack)[i] = as_quantized(result, at::get_qtensorimpl(self)->quantizer());
    }
  }
}

// Kernel of ops that compute with dequantized values. float32 results get the quantizer of the
// first argument.
void on_floats(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const size_t base = arguments_begin(handle, *stack);
  const at::Tensor self = (*stack)[base].toTensor();
  replace_quantized(*stack, base, floats_of);
  handle.callBoxed(*stack);
  for (size_t i = base; i < stack->size(); ++i) {
    const at::Tensor result = (*stack)[i].toTensor();
    if (result.scalar_type() == at::kFloat && self.is_quantized()) {
      (*stack)[i] = quantize_like(result, self);
    }
  }
}

// --- single ops of the library `aten` ---

// Returns a quantized tensor with these integers and the quantizer of `like`.
at::Tensor with_integers(const at::Tensor& like, const at::Tensor& integers) {
  return as_quantized(
      integers.to(integer_dtype(like.scalar_type())), at::get_qtensorimpl(like)->quantizer());
}

at::Tensor relu(const at::Tensor& self) {
  check_per_tensor("relu", self);
  return with_integers(self, integers_of(self).clamp_min(self.q_zero_point()));
}

at::Tensor& relu_(at::Tensor& self) {
  integers_of(self).copy_(integers_of(ftm::relu(self)));
  return self;
}

at::Tensor clamp(
    const at::Tensor& self, const std::optional<at::Scalar>& min,
    const std::optional<at::Scalar>& max) {
  check_per_tensor("clamp", self);
  return quantize_like(at::clamp(floats_of(self), min, max), self);
}

at::Tensor hardtanh(const at::Tensor& self, const at::Scalar& min, const at::Scalar& max) {
  return ftm::clamp(self, min, max);
}

at::Tensor& hardtanh_(at::Tensor& self, const at::Scalar& min, const at::Scalar& max) {
  integers_of(self).copy_(integers_of(ftm::clamp(self, min, max)));
  return self;
}

// Quantizes the values of a function with a fixed range, with the CPU's choice of scale and zero
// point.
at::Tensor quantize_fixed_range(
    const at::Tensor& floats, at::ScalarType dtype, double lowest, double width) {
  const double steps = dtype == at::kQInt32 ? 4294967296.0 : 256.0;
  const double scale = width / steps;
  const auto zero = range_of(dtype).least - static_cast<int64_t>(lowest / scale);
  return quantize_each(floats, scale, zero, dtype);
}

at::Tensor sigmoid(const at::Tensor& self) {
  return quantize_fixed_range(at::sigmoid(floats_of(self)), self.scalar_type(), 0, 1);
}

at::Tensor hardsigmoid(const at::Tensor& self) {
  return quantize_fixed_range(at::hardsigmoid(floats_of(self)), self.scalar_type(), 0, 1);
}

at::Tensor tanh(const at::Tensor& self) {
  return quantize_fixed_range(at::tanh(floats_of(self)), self.scalar_type(), -1, 2);
}

at::Tensor max_pool2d(
    const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
    at::IntArrayRef dilation, bool ceil_mode) {
  check_per_tensor("max_pool2d", self);
  return with_integers(
      self, at::max_pool2d(
                integers_of(self).to(at::kFloat), kernel, stride, padding, dilation, ceil_mode));
}

at::Tensor max_pool1d(
    const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
    at::IntArrayRef dilation, bool ceil_mode) {
  check_per_tensor("max_pool1d", self);
  return with_integers(
      self, at::max_pool1d(
                integers_of(self).to(at::kFloat), kernel, stride, padding, dilation, ceil_mode));
}

at::Tensor concatenate(
    at::TensorList tensors, int64_t dim, double scale, int64_t zero_point, bool relu) {
  TORCH_CHECK(!tensors.empty(), "quantized::cat: expected a non-empty list of tensors");
  std::vector<at::Tensor> integers;
  for (const at::Tensor& tensor : tensors) {
    check_per_tensor("quantized::cat", tensor);
    TORCH_CHECK(
        tensor.scalar_type() == tensors[0].scalar_type(),
        "All dtypes must be the same in quantized::cat, got ", tensors[0].scalar_type(), " and ",
        tensor.scalar_type());
    const bool same = tensor.q_scale() == scale && tensor.q_zero_point() == zero_point;
    integers.push_back(integers_of(
        same ? tensor : quantize_each(floats_of(tensor), scale, zero_point, tensor.scalar_type())));
  }
  const auto quantizer =
      at::make_per_tensor_affine_quantizer(scale, zero_point, tensors[0].scalar_type());
  const at::Tensor all = at::cat(integers, dim);
  return as_quantized(relu ? all.clamp_min(zero_point).to(all.scalar_type()) : all, quantizer);
}

at::Tensor cat(const at::ITensorListRef& tensors, int64_t dim) {
  const std::vector<at::Tensor> list(tensors.begin(), tensors.end());
  check_per_tensor("cat", list.at(0));
  for (const at::Tensor& tensor : list) {
    TORCH_CHECK(
        tensor.is_quantized() && tensor.q_scale() == list[0].q_scale() &&
            tensor.q_zero_point() == list[0].q_zero_point(),
        "All inputs should share the same quantization parameters.");
  }
  return concatenate(list, dim, list[0].q_scale(), list[0].q_zero_point(), false);
}

// --- ops of the library `quantized` ---

template <bool kRelu>
at::Tensor quantized_cat(
    const c10::List<at::Tensor>& tensors, int64_t dim, std::optional<double> scale,
    std::optional<int64_t> zero_point) {
  const std::vector<at::Tensor> list = tensors.vec();
  return concatenate(
      list, dim, scale.value_or(list.at(0).q_scale()),
      zero_point.value_or(list.at(0).q_zero_point()), kRelu);
}

void check_pair(const char* name, const at::Tensor& a, const at::Tensor& b) {
  check_per_tensor(name, a);
  check_per_tensor(name, b);
  TORCH_CHECK(
      a.scalar_type() == b.scalar_type(), name, ": operands should have the same data type.");
}

template <bool kRelu>
at::Tensor add(const at::Tensor& a, const at::Tensor& b, double scale, int64_t zero_point) {
  check_pair("quantized::add", a, b);
  const at::Tensor sum = floats_of(a).add(floats_of(b));
  return quantize_each(kRelu ? sum.relu() : sum, scale, zero_point, a.scalar_type());
}

template <bool kRelu>
at::Tensor mul(const at::Tensor& a, const at::Tensor& b, double scale, int64_t zero_point) {
  check_pair("quantized::mul", a, b);
  const at::Tensor product = floats_of(a).mul(floats_of(b));
  return quantize_each(kRelu ? product.relu() : product, scale, zero_point, a.scalar_type());
}

at::Tensor relu6(const at::Tensor& self, bool inplace) {
  at::Tensor result = ftm::clamp(self, at::Scalar(0), at::Scalar(6));
  if (!inplace) {
    return result;
  }
  integers_of(self).copy_(integers_of(result));
  return self;
}

at::Tensor quantized_max_pool2d(
    const at::Tensor& self, const c10::List<int64_t>& kernel, const c10::List<int64_t>& stride,
    const c10::List<int64_t>& padding, const c10::List<int64_t>& dilation, bool ceil_mode) {
  return ftm::max_pool2d(
      self, kernel.vec(), stride.vec(), padding.vec(), dilation.vec(), ceil_mode);
}

at::Tensor hardswish(const at::Tensor& self, double scale, int64_t zero_point) {
  return quantize_each(at::hardswish(floats_of(self)), scale, zero_point, self.scalar_type());
}

at::Tensor quantized_sigmoid(const at::Tensor& self, double scale, int64_t zero_point) {
  return quantize_each(at::sigmoid(floats_of(self)), scale, zero_point, self.scalar_type());
}

at::Tensor elu(
    const at::Tensor& self, double scale, int64_t zero_point, const at::Scalar& alpha,
    const at::Scalar& factor, const at::Scalar& input_factor) {
  return quantize_each(
      at::elu(floats_of(self), alpha, factor, input_factor), scale, zero_point, self.scalar_type());
}

at::Tensor leaky_relu(
    const at::Tensor& self, const at::Scalar& slope, bool, double scale, int64_t zero_point) {
  return quantize_each(
      at::leaky_relu(floats_of(self), slope), scale, zero_point, self.scalar_type());
}

at::Tensor softmax(const at::Tensor& self, int64_t dim, double scale, int64_t zero_point) {
  return quantize_each(at::softmax(floats_of(self), dim), scale, zero_point, self.scalar_type());
}

at::Tensor layer_norm(
    const at::Tensor& self, at::IntArrayRef shape, const std::optional<at::Tensor>& weight,
    const std::optional<at::Tensor>& bias, double eps, double scale, int64_t zero_point) {
  return quantize_each(
      at::layer_norm(floats_of(self), shape, weight, bias, eps), scale, zero_point,
      self.scalar_type());
}

template <bool kRelu>
at::Tensor batch_norm(
    const at::Tensor& self, const std::optional<at::Tensor>& weight,
    const std::optional<at::Tensor>& bias, const at::Tensor& mean, const at::Tensor& variance,
    double eps, double scale, int64_t zero_point) {
  const at::Tensor result = at::batch_norm(
      floats_of(self), weight, bias, mean, variance, /*training=*/false, 0, eps,
      /*cudnn_enabled=*/false);
  return quantize_each(kRelu ? result.relu() : result, scale, zero_point, self.scalar_type());
}

void impl_all(
    torch::Library& library, std::initializer_list<const char*> names,
    torch::CppFunction (*kernel)()) {
  for (const char* name : names) {
    library.impl(name, kernel());
  }
}

} // namespace

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, library) {
  impl_all(
      library,
      {"index.Tensor", "index_select", "flip", "sort.stable", "topk", "max", "min", "max.dim",
       "min.dim", "reflection_pad2d", "upsample_nearest2d", "upsample_nearest3d",
       "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "channel_shuffle"},
      [] { return torch::CppFunction::makeFromBoxedFunction<&on_integers>(); });
  impl_all(
      library,
      {"eq.Tensor",
       "ne.Tensor",
       "lt.Tensor",
       "le.Tensor",
       "gt.Tensor",
       "ge.Tensor",
       "eq.Scalar",
       "ne.Scalar",
       "lt.Scalar",
       "le.Scalar",
       "gt.Scalar",
       "ge.Scalar",
       "mean.dim",
       "avg_pool2d",
       "avg_pool3d",
       "_adaptive_avg_pool2d",
       "_adaptive_avg_pool3d",
       "upsample_bilinear2d",
       "leaky_relu",
       "threshold",
       "std.correction"},
      [] { return torch::CppFunction::makeFromBoxedFunction<&on_floats>(); });
  library.impl("relu", TORCH_FN(ftm::relu));
  library.impl("relu_", TORCH_FN(relu_));
  library.impl("clamp", TORCH_FN(ftm::clamp));
  library.impl("hardtanh", TORCH_FN(ftm::hardtanh));
  library.impl("hardtanh_", TORCH_FN(hardtanh_));
  library.impl("sigmoid", TORCH_FN(sigmoid));
  library.impl("hardsigmoid", TORCH_FN(hardsigmoid));
  library.impl("tanh", TORCH_FN(tanh));
  library.impl("cat", TORCH_FN(cat));
  library.impl("quantized_max_pool1d", TORCH_FN(ftm::max_pool1d));
  library.impl("quantized_max_pool2d", TORCH_FN(ftm::max_pool2d));
}

TORCH_LIBRARY_IMPL(quantized, QuantizedPrivateUse1, library) {
  library.impl("add", boxed<&add<false>>());
  library.impl("add_relu", boxed<&add<true>>());
  library.impl("mul", boxed<&mul<false>>());
  library.impl("mul_relu", boxed<&mul<true>>());
  library.impl("cat", boxed<&quantized_cat<false>>());
  library.impl("cat_relu", boxed<&quantized_cat<true>>());
  library.impl("relu6", boxed<&relu6>());
  library.impl("clamp", boxed<&ftm::clamp>());
  library.impl("max_pool2d", boxed<&quantized_max_pool2d>());
  library.impl("hardswish", boxed<&hardswish>());
  library.impl("sigmoid", boxed<&quantized_sigmoid>());
  library.impl("elu", boxed<&elu>());
  library.impl("leaky_relu", boxed<&leaky_relu>());
  library.impl("softmax", boxed<&softmax>());
  library.impl("layer_norm", boxed<&layer_norm>());
  for (const char* name : {"batch_norm", "batch_norm1d", "batch_norm2d", "batch_norm3d"}) {
    library.impl(name, boxed<&batch_norm<false>>());
    library.impl((std::string(name) + "_relu").c_str(), boxed<&batch_norm<true>>());
  }
}

} // namespace ftm
