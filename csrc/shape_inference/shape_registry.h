// Helpers to define shape functions that replace the dispatcher's meta kernels.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/operator_name.h>

#include <optional>
#include <tuple>
#include <unordered_map>

namespace ftm {

// Shape functions by op.
using ShapeTable = std::unordered_map<c10::OperatorName, c10::KernelFunction>;

constexpr auto kMetaKey = c10::DispatchKeySet(c10::DispatchKey::Meta);

// Adds a function with the op's signature.
template <class Op>
void add_shape_function(ShapeTable& table, typename Op::schema* function) {
  table.emplace(
      c10::OperatorName(Op::name, Op::overload_name),
      c10::KernelFunction::makeFromUnboxedRuntimeFunction(function));
}

// Wraps a function that infers the results of some calls only, and returns nullopt for the others
// and for invalid calls. The dispatcher's meta kernel handles those.
template <class Op, class Schema>
struct PartialFunction;
template <class Op, class Result, class... Arguments>
struct PartialFunction<Op, Result(Arguments...)> {
  template <std::optional<Result> (*infer)(Arguments...)>
  static Result call(Arguments... arguments) {
    if (auto result = infer(arguments...)) {
      return *std::move(result);
    }
    return Op::redispatch(kMetaKey, arguments...);
  }
};
template <class Op, auto infer>
void add_partial_function(ShapeTable& table) {
  add_shape_function<Op>(table, &PartialFunction<Op, typename Op::schema>::template call<infer>);
}

using MetaResult = std::optional<at::Tensor>;
using TwoTensors = std::tuple<at::Tensor, at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Makes a row-major meta tensor.
inline at::Tensor contiguous_meta(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::Tensor(at::detail::empty_meta(sizes, dtype));
}

// Whether an optional tensor argument is given.
inline bool is_defined(const std::optional<at::Tensor>& tensor) {
  return tensor && tensor->defined();
}

// Resizes an out= argument to the inferred result if it is empty. Returns false if the dispatcher
// must handle the call: the sizes or dtypes differ, or nothing was inferred.
bool resize_out(at::Tensor& out, const MetaResult& result);

// Whether the dtype is f32 or f64, in which ops compute without conversion, and all given tensors
// have it.
inline bool is_all_of_float(
    std::initializer_list<const std::optional<at::Tensor>*> tensors, at::ScalarType dtype) {
  return (dtype == at::kFloat || dtype == at::kDouble) &&
         std::all_of(tensors.begin(), tensors.end(), [&](const auto* tensor) {
           return !is_defined(*tensor) || (*tensor)->scalar_type() == dtype;
         });
}

// Returns the meta result of an elementwise op on tensors of one dtype: broadcast sizes, in eager's
// memory order.
at::Tensor elementwise(at::ScalarType dtype, at::TensorList tensors);

} // namespace ftm
