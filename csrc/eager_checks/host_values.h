// Operands whose elements eager refuses: a divisor of integers that is 0, weights that are no
// distribution. A number, and a tensor that came from the CPU, are looked at where the call is
// recorded; what the device computes is not, so that there an integer divided by 0 is 0, and an
// impossible draw an error of the program.
#pragma once

#include "ops/op_info.h"

namespace ftm {

// For an op that refuses values: throws what the eager op throws, if it is known to.
void check_known_values(const Op& op, c10::ArrayRef<c10::IValue> arguments);

} // namespace ftm
