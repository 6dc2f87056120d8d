// Records calls on values of the graph instead of on tensors. The caller knows the result's type,
// so no shape is inferred. All functions: under the recorder's lock.
#pragma once

#include "graph/node.h"
#include "ops/op_info.h"

namespace ftm {

// Records a call of `op`. `arguments` has None for operands; `values[i]` is the operand for
// argument `operands[i]`.
Value call_on_values(
    Op& op, std::vector<c10::IValue> arguments, const std::vector<int32_t>& operands,
    c10::ArrayRef<Value> values, ValueType result);
// Records a call whose only operand is the runtime scalar `value`, for argument number `scalar`.
Value call_with_scalar(
    Op& op, std::vector<c10::IValue> arguments, int32_t scalar, const at::Scalar& value,
    ValueType result);

// Returns `value` converted to a dtype.
Value converted(Value value, at::ScalarType dtype);
// Returns zeros of this type.
Value zeros(const ValueType& type);
// Returns `value` broadcast to these sizes.
Value broadcast(Value value, c10::IntArrayRef sizes);

} // namespace ftm
