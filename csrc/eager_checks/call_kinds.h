// Classifies calls by the kinds that op traits name (ops/op_traits.h).
#pragma once

#include "ops/op_info.h"

namespace ftm {

// Whether the call is of this kind. `arguments` are those of the user's call.
bool is_call(CallKind kind, const Op& op, c10::ArrayRef<c10::IValue> arguments);
// Whether the call is of one of these kinds.
bool is_any_call(
    const std::vector<CallKind>& kinds, const Op& op, c10::ArrayRef<c10::IValue> arguments);

// Whether the call compares integers with a floating-point number in a default dtype that is not
// float32. Neither operand nor result has that dtype, and the compiler takes float32.
bool compares_in_default_dtype(const Op& op, c10::ArrayRef<c10::IValue> arguments);

// Whether the value is a tensor of integers or booleans.
bool is_integral(const c10::IValue& value);
// Whether the value is a defined floating-point tensor.
bool is_real(const c10::IValue& value);
// Whether the defined tensors among the arguments have several dtypes.
bool has_mixed_dtypes(c10::ArrayRef<c10::IValue> arguments);

// Returns the argument with this name, or null if the schema has none.
const c10::IValue* argument_named(
    const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments,
    const std::string& name);

} // namespace ftm
