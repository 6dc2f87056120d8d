// Calls that meta kernels take though eager refuses them.
#pragma once

#include "ops/op_info.h"

namespace ftm {

// Whether a gradient and what it is of are of several dtypes: what becomes of them is known to the
// kernels alone.
bool mixes_dtypes_of_gradients(const Op& op, c10::ArrayRef<c10::IValue> arguments);

// Throws what the eager op throws where its meta kernel doesn't look.
void check_call(const Op& op, c10::ArrayRef<c10::IValue> arguments);
// The same with the results known; `own`: the arguments of the functional form.
void check_results(
    const Op& op, c10::ArrayRef<c10::IValue> arguments, c10::ArrayRef<c10::IValue> own,
    const std::vector<ResultType>& results);

// Whether there are numbers that a tensor of this dtype cannot hold.
bool may_overflow(at::ScalarType dtype);
// Throws what the eager op throws if it refuses a number that its dtype cannot hold. A number is no
// part of a form, so this looks at every call.
void check_numbers(const Op& op, c10::ArrayRef<c10::IValue> arguments, at::ScalarType dtype);
// The same for numbers outside of the op's domain: a negative width, a range from high to low.
void check_domain(const Op& op, c10::ArrayRef<c10::IValue> arguments);
// The same as check_numbers for filling a tensor.
void check_fill(const at::Scalar& value, const at::Tensor& self);

} // namespace ftm
