// Classifies calls by the kinds that op traits name (ops/op_traits.h).
#pragma once

#include "ops/op_info.h"

namespace ftm {

// Whether the call is of this kind. `arguments` are those of the user's call.
bool is_call(CallKind kind, const Op& op, c10::ArrayRef<c10::IValue> arguments);
// Whether the call is of one of these kinds.
bool is_any_call(
    const std::vector<CallKind>& kinds, const Op& op, c10::ArrayRef<c10::IValue> arguments);

// Whether the value is a defined floating-point tensor.
bool is_real(const c10::IValue& value);
// Whether the defined tensors among the arguments have several dtypes.
bool has_mixed_dtypes(c10::ArrayRef<c10::IValue> arguments);

// Returns the argument with this name, or null if the schema has none.
const c10::IValue* argument_named(
    const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments,
    const std::string& name);

} // namespace ftm
