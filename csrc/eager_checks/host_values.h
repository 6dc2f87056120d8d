// Checks operands' values for which eager raises: a zero integer divisor, weights that are no
// distribution. Numbers, and tensors whose values came from the CPU, are checked when the call is
// recorded. Values that the device computes are not: there an integer divided by 0 is 0, and
// drawing by invalid weights is an error of the program.
#pragma once

#include "ops/op_info.h"

namespace ftm {

// For an op with `refuses_values`: throws eager's error if the values are available and invalid.
void check_host_values(const Op& op, c10::ArrayRef<c10::IValue> arguments);

} // namespace ftm
