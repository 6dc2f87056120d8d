#include "shape_inference/shape_functions.h"

#include "shape_inference/layer_shapes.h"
#include "shape_inference/loss_shapes.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MetaFunctions.h>
#include <ATen/Operators.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/layer_norm.h>
#include <ATen/ops/result_type.h>

namespace ftm {

namespace {

// --- frequent ops without a structured kernel, or whose structured kernel checks less ---

// ATen's shape function leaves this check to the kernel.
void check_approximation(c10::string_view approximate) {
  TORCH_CHECK(
      approximate == "none" || approximate == "tanh",
      "approximate argument must be either none or tanh.");
}

at::Tensor gelu(const at::Tensor& self, c10::string_view approximate) {
  check_approximation(approximate);
  return at::meta::gelu(self, approximate);
}

at::Tensor& gelu_(at::Tensor& self, c10::string_view approximate) {
  check_approximation(approximate);
  return at::meta::gelu_(self, approximate);
}

at::Tensor gelu_backward(
    const at::Tensor& grad_output, const at::Tensor& self, c10::string_view approximate) {
  check_approximation(approximate);
  return at::meta::gelu_backward(grad_output, self, approximate);
}

at::Tensor relu(const at::Tensor& self) {
  TORCH_CHECK(self.scalar_type() != at::kBool, "Boolean inputs not supported for relu");
  return at::meta::clamp_min(self, 0);
}

at::Tensor where(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  if (condition.scalar_type() == at::kByte) {
    TORCH_WARN_ONCE(
        "where received a uint8 condition tensor. This behavior is deprecated and will be removed "
        "in a future version of PyTorch. Use a boolean condition instead.");
  }
  if (condition.scalar_type() != at::kBool) {
    return at::_ops::where_self::redispatch(kMetaKey, condition, self, other);
  }
  const auto iterator =
      at::TensorIteratorConfig()
          .check_all_same_dtype(false)
          .allow_cpu_scalars(true)
          .add_owned_output(at::Tensor(at::detail::empty_meta({0}, at::result_type(self, other))))
          .add_const_input(condition)
          .add_const_input(self)
          .add_const_input(other)
          .build();
  return iterator.output();
}

at::Tensor& where_out(
    const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  const auto result = ftm::where(condition, self, other);
  if (result.scalar_type() != out.scalar_type()) {
    return at::_ops::where_self_out::redispatch(kMetaKey, condition, self, other, out);
  }
  out.resize_(result.sizes());
  return out;
}

at::Tensor embedding(
    const at::Tensor& weight, const at::Tensor& indices, c10::SymInt padding_idx,
    bool scale_grad_by_freq, bool sparse) {
  const auto kind = indices.scalar_type();
  if (weight.dim() != 2 || (kind != at::kLong && kind != at::kInt)) {
    return at::_ops::embedding::redispatch(
        kMetaKey, weight, indices, std::move(padding_idx), scale_grad_by_freq, sparse);
  }
  c10::DimVector sizes(indices.sizes());
  sizes.push_back(weight.size(1));
  return at::Tensor(at::detail::empty_meta(sizes, weight.scalar_type()));
}

at::Tensor roll(const at::Tensor& self, c10::SymIntArrayRef shifts, at::IntArrayRef dims) {
  if (shifts.size() != 1 || dims.size() != 1 || self.numel() == 0) {
    return at::_ops::roll::redispatch(kMetaKey, self, shifts, dims);
  }
  at::maybe_wrap_dim(dims[0], self.dim(), /*wrap_scalar=*/false);
  return elementwise(self.scalar_type(), self);
}

MetaResult masked_fill(const at::Tensor& self, const at::Tensor& mask, const at::Scalar& value) {
  if (!self.is_contiguous() || !at::isFloatingType(self.scalar_type()) ||
      mask.scalar_type() != at::kBool || value.isComplex() ||
      !at::is_expandable_to(mask.sizes(), self.sizes())) {
    return std::nullopt;
  }
  return contiguous_meta(self.sizes(), self.scalar_type());
}

at::Tensor& masked_fill_(at::Tensor& self, const at::Tensor& mask, const at::Scalar& value) {
  return ftm::masked_fill(self, mask, value)
             ? self
             : at::_ops::masked_fill__Scalar::redispatch(kMetaKey, self, mask, value);
}

MetaResult index_put(
    const at::Tensor& self, const c10::List<std::optional<at::Tensor>>&, const at::Tensor& values,
    bool) {
  return values.scalar_type() == self.scalar_type()
             ? MetaResult(elementwise(self.scalar_type(), self))
             : std::nullopt;
}

MetaResult multinomial(
    const at::Tensor& self, c10::SymInt samples, bool, std::optional<at::Generator>) {
  if (self.dim() < 1 || self.dim() > 2 || !at::isFloatingType(self.scalar_type())) {
    return std::nullopt;
  }
  c10::DimVector sizes(self.sizes());
  sizes.back() = samples.expect_int();
  return sizes.back() > 0 ? MetaResult(contiguous_meta(sizes, at::kLong)) : std::nullopt;
}

MetaResult normal(const at::Tensor& self, double, double deviation, std::optional<at::Generator>) {
  const bool is_supported = deviation >= 0 && at::isFloatingType(self.scalar_type());
  return is_supported ? MetaResult(elementwise(self.scalar_type(), self)) : std::nullopt;
}

at::Tensor& normal_(
    at::Tensor& self, double mean, double deviation, std::optional<at::Generator> generator) {
  return ftm::normal(self, mean, deviation, generator)
             ? self
             : at::_ops::normal_::redispatch(kMetaKey, self, mean, deviation, std::move(generator));
}

MetaResult select_backward(
    const at::Tensor& grad, c10::SymIntArrayRef sizes, int64_t, c10::SymInt) {
  const auto numbers = c10::asIntArrayRefSlowOpt(sizes);
  return numbers ? MetaResult(contiguous_meta(*numbers, grad.scalar_type())) : std::nullopt;
}

MetaResult abs(const at::Tensor& self) {
  const bool is_real = self.scalar_type() != at::kBool && !at::isComplexType(self.scalar_type());
  return is_real ? MetaResult(elementwise(self.scalar_type(), self)) : std::nullopt;
}

at::Tensor& abs_out(const at::Tensor& self, at::Tensor& out) {
  return resize_out(out, ftm::abs(self)) ? out : at::_ops::abs_out::redispatch(kMetaKey, self, out);
}

MetaResult logical_and(const at::Tensor& self, const at::Tensor& other) {
  return self.is_meta() && other.is_meta() ? MetaResult(elementwise(at::kBool, {self, other}))
                                           : std::nullopt;
}

// Returns the length of arange(start, end, step); nullopt if eager would raise an error or use
// another formula.
std::optional<int64_t> arange_length(
    const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::ScalarType dtype) {
  const auto is_number = [](const at::Scalar& scalar) {
    return !scalar.isBoolean() && !scalar.isComplex() && !scalar.isSymbolic();
  };
  if (!is_number(start) || !is_number(end) || !is_number(step)) {
    return std::nullopt;
  }
  const bool is_integral =
      start.isIntegral(false) && end.isIntegral(false) && step.isIntegral(false);
  constexpr int64_t kLimit = int64_t(1) << 48; // below it, doubles and integers agree
  if (!is_integral && !(at::isFloatingType(dtype) &&
                        at::isFloatingType(at::typeMetaToScalarType(at::get_default_dtype())))) {
    return std::nullopt;
  }
  const double first = start.toDouble(), last = end.toDouble(), by = step.toDouble();
  const double count = std::ceil((last - first) / by);
  const bool is_small = std::abs(first) < kLimit && std::abs(last) < kLimit &&
                        std::abs(by) < kLimit && count < kLimit;
  if (by == 0 || !is_small || !(by > 0 ? last >= first : last <= first)) { // also rejects NaN
    return std::nullopt;
  }
  return static_cast<int64_t>(count);
}

MetaResult arange(
    const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
    std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device>, std::optional<bool> pinned) {
  const bool is_integral =
      start.isIntegral(false) && end.isIntegral(false) && step.isIntegral(false);
  const auto result_dtype =
      dtype.value_or(is_integral ? at::kLong : at::typeMetaToScalarType(at::get_default_dtype()));
  const auto count = arange_length(start, end, step, result_dtype);
  if (!count || layout.value_or(at::kStrided) != at::kStrided || pinned.value_or(false)) {
    return std::nullopt;
  }
  return contiguous_meta({*count}, result_dtype);
}

at::Tensor& arange_out(
    const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  const auto count = arange_length(start, end, step, out.scalar_type());
  if (count && out.numel() == 0) {
    out.resize_({*count});
  }
  if (count && out.numel() == *count) {
    return out;
  }
  return at::_ops::arange_start_out::redispatch(kMetaKey, start, end, step, out);
}

// Handles inputs of one dtype; other calls go to the dispatcher.
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(
    const at::Tensor& input, c10::SymIntArrayRef normalized_shape,
    const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias, double eps) {
  const auto dtype = input.scalar_type();
  const auto has_other_dtype = [&](const std::optional<at::Tensor>& parameter) {
    return parameter && parameter->defined() && parameter->scalar_type() != dtype;
  };
  const auto shape = c10::asIntArrayRefSlowOpt(normalized_shape);
  if (!shape || (dtype != at::kFloat && dtype != at::kDouble) || has_other_dtype(weight) ||
      has_other_dtype(bias)) {
    return at::_ops::native_layer_norm::redispatch(
        kMetaKey, input, normalized_shape, weight, bias, eps);
  }
  at::native::_check_layer_norm_inputs(
      input, *shape, weight.value_or(at::Tensor()), bias.value_or(at::Tensor()));
  c10::DimVector rows(input.sizes());
  std::fill(rows.end() - static_cast<int64_t>(shape->size()), rows.end(), 1);
  const auto statistics = [&] { return at::Tensor(at::detail::empty_meta(rows, dtype)); };
  return {at::Tensor(at::detail::empty_meta(input.sizes(), dtype)), statistics(), statistics()};
}

// --- tables ---

ShapeTable structured_functions() {
  ShapeTable table;
#define FTM_SHAPE(function, op)                                           \
  table.emplace(                                                          \
      c10::OperatorName(at::_ops::op::name, at::_ops::op::overload_name), \
      c10::KernelFunction::makeFromUnboxedRuntimeFunction(                \
          static_cast<at::_ops::op::schema*>(&at::meta::function)));
#include "shape_inference/shape_functions.inc"
#undef FTM_SHAPE
  add_shape_function<at::_ops::gelu>(table, &ftm::gelu);
  add_shape_function<at::_ops::gelu_>(table, &ftm::gelu_);
  add_shape_function<at::_ops::gelu_backward>(table, &ftm::gelu_backward);
  return table;
}

ShapeTable other_functions() {
  ShapeTable table;
  add_shape_function<at::_ops::embedding>(table, &ftm::embedding);
  add_shape_function<at::_ops::relu>(table, &ftm::relu);
  add_shape_function<at::_ops::roll>(table, &ftm::roll);
  add_shape_function<at::_ops::where_self>(table, &ftm::where);
  add_shape_function<at::_ops::where_self_out>(table, &ftm::where_out);
  add_shape_function<at::_ops::native_layer_norm>(table, &layer_norm);
  add_partial_function<at::_ops::masked_fill_Scalar, &ftm::masked_fill>(table);
  add_shape_function<at::_ops::masked_fill__Scalar>(table, &ftm::masked_fill_);
  add_partial_function<at::_ops::index_put, &ftm::index_put>(table);
  add_partial_function<at::_ops::multinomial, &ftm::multinomial>(table);
  add_partial_function<at::_ops::normal_functional, &ftm::normal>(table);
  add_shape_function<at::_ops::normal_>(table, &ftm::normal_);
  add_shape_function<at::_ops::add_out>(table, &at::meta::add_outf);
  add_shape_function<at::_ops::sub_out>(table, &at::meta::sub_outf);
  add_shape_function<at::_ops::mul_out>(table, &at::meta::mul_outf);
  add_shape_function<at::_ops::div_out>(table, &at::meta::div_outf);
  add_shape_function<at::_ops::mm_out>(table, &at::meta::mm_outf);
  add_partial_function<at::_ops::select_backward, &ftm::select_backward>(table);
  add_partial_function<at::_ops::abs, &ftm::abs>(table);
  add_shape_function<at::_ops::abs_out>(table, &ftm::abs_out);
  add_partial_function<at::_ops::logical_and, &ftm::logical_and>(table);
  add_partial_function<at::_ops::arange_start_step, &ftm::arange>(table);
  add_shape_function<at::_ops::arange_start_out>(table, &ftm::arange_out);
  add_layer_shapes(table);
  add_loss_shapes(table);
  return table;
}

const c10::KernelFunction* find_function(const ShapeTable& table, const c10::OperatorHandle& op) {
  const auto found = table.find(op.operator_name());
  return found == table.end() ? nullptr : &found->second;
}

const c10::KernelFunction* structured_function(const c10::OperatorHandle& op) {
  static const ShapeTable table = structured_functions();
  return find_function(table, op);
}

} // namespace

const c10::KernelFunction* shape_function(const c10::OperatorHandle& op) {
  static const ShapeTable others = other_functions();
  const auto* structured = structured_function(op);
  return structured != nullptr ? structured : find_function(others, op);
}

bool is_structured(const c10::OperatorHandle& op) {
  return structured_function(op) != nullptr;
}

} // namespace ftm
