#include "eager/shape_functions.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MetaFunctions.h>
#include <ATen/Operators.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/layer_norm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>

#include <unordered_map>

namespace ftm {
namespace {

constexpr c10::DispatchKeySet kMetaKey(c10::DispatchKey::Meta);

// --- ops that many programs call, and that have no structured kernel, or one that checks less ---

// That of ATen leaves the word to the kernel.
void check_approximation(c10::string_view approximate) {
  TORCH_CHECK(approximate == "none" || approximate == "tanh", "approximate argument must be either none or tanh.");
}

at::Tensor gelu(const at::Tensor& self, c10::string_view approximate) {
  check_approximation(approximate);
  return at::meta::gelu(self, approximate);
}

at::Tensor& gelu_(at::Tensor& self, c10::string_view approximate) {
  check_approximation(approximate);
  return at::meta::gelu_(self, approximate);
}

at::Tensor gelu_backward(const at::Tensor& grad_output, const at::Tensor& self, c10::string_view approximate) {
  check_approximation(approximate);
  return at::meta::gelu_backward(grad_output, self, approximate);
}

at::Tensor relu(const at::Tensor& self) {
  TORCH_CHECK(self.scalar_type() != at::kBool, "Boolean inputs not supported for relu");
  return at::meta::clamp_min(self, 0);
}

at::Tensor select_where(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  if (condition.scalar_type() != at::kBool) {
    return at::_ops::where_self::redispatch(kMetaKey, condition, self, other);
  }
  const auto iterator = at::TensorIteratorConfig()
                            .check_all_same_dtype(false)
                            .allow_cpu_scalars(true)
                            .add_owned_output(at::Tensor(at::detail::empty_meta({0}, at::result_type(self, other))))
                            .add_const_input(condition)
                            .add_const_input(self)
                            .add_const_input(other)
                            .build();
  return iterator.output();
}

at::Tensor& select_where_out(
    const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  const auto made = select_where(condition, self, other);
  if (made.scalar_type() != out.scalar_type()) {
    return at::_ops::where_self_out::redispatch(kMetaKey, condition, self, other, out);
  }
  out.resize_(made.sizes());
  return out;
}

at::Tensor embedding(
    const at::Tensor& weight, const at::Tensor& indices, c10::SymInt padding_idx, bool scale_grad_by_freq,
    bool sparse) {
  const auto kind = indices.scalar_type();
  if (weight.dim() != 2 || (kind != at::kLong && kind != at::kInt)) {
    return at::_ops::embedding::redispatch(
        kMetaKey, weight, indices, std::move(padding_idx), scale_grad_by_freq, sparse);
  }
  c10::DimVector sizes(indices.sizes());
  sizes.push_back(weight.size(1));
  return at::Tensor(at::detail::empty_meta(sizes, weight.scalar_type()));
}

std::tuple<at::Tensor, at::Tensor> dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  if (!at::isFloatingType(input.scalar_type())) {
    return at::_ops::native_dropout::redispatch(kMetaKey, input, p, train);
  }
  const auto mask = input.numel() == 0 ? input.scalar_type() : at::kBool; // as the CPU says
  return {at::empty_like(input), at::empty_like(input, input.options().dtype(mask))};
}

at::Tensor rolled(const at::Tensor& self, c10::SymIntArrayRef shifts, at::IntArrayRef dims) {
  if (shifts.size() != 1 || dims.size() != 1 || self.numel() == 0) {
    return at::_ops::roll::redispatch(kMetaKey, self, shifts, dims);
  }
  at::maybe_wrap_dim(dims[0], self.dim(), /*wrap_scalar=*/false);
  return at::empty_like(self);
}

// Those of one dtype with their statistics; others are for the dispatcher.
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(
    const at::Tensor& input, c10::SymIntArrayRef normalized_shape, const std::optional<at::Tensor>& weight,
    const std::optional<at::Tensor>& bias, double eps) {
  const auto dtype = input.scalar_type();
  const auto other = [&](const std::optional<at::Tensor>& parameter) {
    return parameter && parameter->defined() && parameter->scalar_type() != dtype;
  };
  const auto shape = c10::asIntArrayRefSlowOpt(normalized_shape);
  if (!shape || (dtype != at::kFloat && dtype != at::kDouble) || other(weight) || other(bias)) {
    return at::_ops::native_layer_norm::redispatch(kMetaKey, input, normalized_shape, weight, bias, eps);
  }
  at::native::_check_layer_norm_inputs(input, *shape, weight.value_or(at::Tensor()), bias.value_or(at::Tensor()));
  c10::DimVector rows(input.sizes());
  std::fill(rows.end() - static_cast<int64_t>(shape->size()), rows.end(), 1);
  const auto statistics = [&] { return at::Tensor(at::detail::empty_meta(rows, dtype)); };
  return {at::Tensor(at::detail::empty_meta(input.sizes(), dtype)), statistics(), statistics()};
}

// --- all ---

using Table = std::unordered_map<c10::OperatorName, c10::KernelFunction>;

Table make_table() {
  Table table;
#define FTM_SHAPE(function, op)                                           \
  table.emplace(                                                          \
      c10::OperatorName(at::_ops::op::name, at::_ops::op::overload_name), \
      c10::KernelFunction::makeFromUnboxedRuntimeFunction(static_cast<at::_ops::op::schema*>(&at::meta::function)));
#include "eager/shape_functions.inc"
#undef FTM_SHAPE
  const auto add = [&](auto op, auto* function) {
    using Op = decltype(op);
    table.emplace(
        c10::OperatorName(Op::name, Op::overload_name),
        c10::KernelFunction::makeFromUnboxedRuntimeFunction(static_cast<typename Op::schema*>(function)));
  };
  add(at::_ops::embedding(), &embedding);
  add(at::_ops::gelu(), &gelu);
  add(at::_ops::gelu_(), &gelu_);
  add(at::_ops::gelu_backward(), &gelu_backward);
  add(at::_ops::native_dropout(), &dropout);
  add(at::_ops::relu(), &relu);
  add(at::_ops::roll(), &rolled);
  add(at::_ops::where_self(), &select_where);
  add(at::_ops::where_self_out(), &select_where_out);
  add(at::_ops::native_layer_norm(), &layer_norm);
  return table;
}

} // namespace

const c10::KernelFunction* shape_function(const c10::OperatorHandle& op) {
  static const Table table = make_table();
  const auto found = table.find(op.operator_name());
  return found == table.end() ? nullptr : &found->second;
}

} // namespace ftm
