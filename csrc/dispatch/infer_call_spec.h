// Infers a call's spec. ATen's meta kernels give the results' sizes, dtypes and strides, and the
// errors.
#pragma once

#include "ops/op_info.h"

#include <ATen/core/stack.h>

namespace ftm {

// Infers the spec of a call from its arguments. Throws eager's errors. Must not be called under the
// recorder's lock, since meta kernels may run Python.
CallSpecPtr infer_call_spec(const Op& op, c10::ArrayRef<c10::IValue> arguments);

} // namespace ftm
