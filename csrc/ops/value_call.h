// Calls that kernels make on values of the graph, not on tensors: their result's type is known. All
// under the recorder's lock.
#pragma once

#include "graph/node.h"
#include "ops/op_info.h"

namespace ftm {

// `arguments` has None for operands; `values` are given to the arguments in `operands`, in order.
Value call_on_values(
    Op& op, std::vector<c10::IValue> arguments, const std::vector<int32_t>& operands,
    c10::ArrayRef<Value> values, ValueType result);
// The same for an op whose argument `scalar` is the only operand besides: a runtime scalar.
Value call_with_scalar(
    Op& op, std::vector<c10::IValue> arguments, int32_t scalar, const at::Scalar& value,
    ValueType result);

// `value` converted to a dtype.
Value converted(Value value, at::ScalarType dtype);
// Zeros of this type.
Value zeros(const ValueType& type);
// `value` broadcast to sizes.
Value broadcast(Value value, c10::IntArrayRef sizes);

} // namespace ftm
