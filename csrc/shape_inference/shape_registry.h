// How a function that says what an op returns is put beside the dispatcher's own.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/operator_name.h>

#include <optional>
#include <tuple>
#include <unordered_map>

namespace ftm {

using ShapeTable = std::unordered_map<c10::OperatorName, c10::KernelFunction>;

constexpr auto kMetaKey = c10::DispatchKeySet(c10::DispatchKey::Meta);

template <class Op>
void add_shape_function(ShapeTable& table, typename Op::schema* function) {
  table.emplace(
      c10::OperatorName(Op::name, Op::overload_name),
      c10::KernelFunction::makeFromUnboxedRuntimeFunction(function));
}

// What a function says of the calls that it knows; of others, and of wrong ones, the dispatcher
// says it.
template <class Op, class Schema>
struct KnownCalls;

template <class Op, class Result, class... Arguments>
struct KnownCalls<Op, Result(Arguments...)> {
  template <std::optional<Result> (*known)(Arguments...)>
  static Result call(Arguments... arguments) {
    if (auto made = known(arguments...)) {
      return *std::move(made);
    }
    return Op::redispatch(kMetaKey, arguments...);
  }
};

template <class Op, auto known>
void add_known_calls(ShapeTable& table) {
  add_shape_function<Op>(table, &KnownCalls<Op, typename Op::schema>::template call<known>);
}

using Known = std::optional<at::Tensor>;
using TwoTensors = std::tuple<at::Tensor, at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

inline at::Tensor contiguous_meta(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::Tensor(at::detail::empty_meta(sizes, dtype));
}

// Whether a tensor is there to be given.
inline bool is_there(const std::optional<at::Tensor>& tensor) {
  return tensor && tensor->defined();
}

// Makes what is written fit, if it has no elements yet; false where that is for eager to say: other
// sizes, another dtype, or nothing known.
bool fit_written(at::Tensor& out, const Known& made);

// Whether these, where they are there, are of one of the two types that are computed in as they
// are.
inline bool of_one_float(
    at::ScalarType dtype, std::initializer_list<const std::optional<at::Tensor>*> tensors) {
  return (dtype == at::kFloat || dtype == at::kDouble) &&
         std::all_of(tensors.begin(), tensors.end(), [&](const auto* tensor) {
           return !is_there(*tensor) || (*tensor)->scalar_type() == dtype;
         });
}

// What an elementwise op makes of tensors of one dtype: their sizes broadcast, in the order that
// eager lays them out in.
at::Tensor elementwise(at::ScalarType dtype, at::TensorList tensors);

} // namespace ftm
