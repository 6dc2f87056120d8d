// The kinds of calls that op records tell apart (ops/schema_annotations.h).
#pragma once

#include "ops/op_info.h"

namespace ftm {

// Whether the call is of this kind; the arguments are those of the op as called.
bool is_call(CallKind kind, const Op& op, c10::ArrayRef<c10::IValue> arguments);
bool is_any_call(
    const std::vector<CallKind>& kinds, const Op& op, c10::ArrayRef<c10::IValue> arguments);

// Of a tensor that is there and of real numbers.
bool is_real(const c10::IValue& value);
// Whether the defined tensors among them are of several dtypes.
bool has_mixed_dtypes(c10::ArrayRef<c10::IValue> arguments);

// The argument of the schema's name; none: nullptr.
const c10::IValue* argument_named(
    const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments,
    const std::string& name);

} // namespace ftm
