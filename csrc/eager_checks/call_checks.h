// Checks for calls that meta kernels accept although eager rejects them. All throw eager's error;
// they may call the CPU kernel, so not under the recorder's lock. `arguments` are those of the
// user's call.
#pragma once

#include "ops/op_info.h"

namespace ftm {

// Whether a backward op has floating-point arguments of several dtypes. Only the CPU kernel can
// tell the result then.
bool mixes_dtypes_of_gradients(const Op& op, c10::ArrayRef<c10::IValue> arguments);

// Checks a call before its results are inferred.
void check_call(const Op& op, c10::ArrayRef<c10::IValue> arguments);
// Checks a call after its results were inferred. `functional`: the arguments of the functional
// variant.
void check_results(
    const Op& op, c10::ArrayRef<c10::IValue> arguments, c10::ArrayRef<c10::IValue> functional,
    const std::vector<ResultType>& results);

// For its lifetime, calls of this thread may compute with integers although the CPU's kernels do
// not: a convolution of quantized tensors is one of integers.
class AllowIntegers {
 public:
  AllowIntegers();
  ~AllowIntegers();
  AllowIntegers(const AllowIntegers&) = delete;
  AllowIntegers& operator=(const AllowIntegers&) = delete;
};

// Checks that the op's CPU kernel supports integers or bools, by calling it once for each set of
// dtypes. `operands`: the operands' dtypes, one bit each.
void check_integer_dtypes(
    const Op& op, c10::ArrayRef<c10::IValue> arguments, uint64_t operands,
    const std::vector<ResultType>& results);

// Whether some numbers do not fit this dtype.
bool may_overflow(at::ScalarType dtype);
// Checks that the call's numbers fit the dtype in which it computes. Numbers are not part of a call
// spec, so this runs for every call.
void check_numbers(const Op& op, c10::ArrayRef<c10::IValue> arguments, at::ScalarType dtype);
// Checks that the call's numbers are in the op's domain: no negative width, no empty range.
void check_domain(const Op& op, c10::ArrayRef<c10::IValue> arguments);
// Checks that the value fits the dtype of the tensor that it fills.
void check_fill(const at::Scalar& value, const at::Tensor& self);

} // namespace ftm
