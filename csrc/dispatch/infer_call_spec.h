// From a call to its form: result shapes, dtypes, strides and errors come from ATen's meta kernels.
#pragma once

#include "ops/op_info.h"

#include <ATen/core/stack.h>

namespace ftm {

// `arguments`: the call as it is on the stack. Throws what the eager op would throw.
CallSpecPtr infer_form(const Op& op, c10::ArrayRef<c10::IValue> arguments);

} // namespace ftm
