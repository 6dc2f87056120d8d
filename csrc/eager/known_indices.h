// Index tensors whose elements came from the CPU: an index outside is found where the call is recorded. Those that the
// device computes are looked at by the program that uses them.
#pragma once

#include "ops/op.h"

namespace ftm {

// For an op with an index rule: throws what the eager op throws for an index outside, if the indices are known.
void check_known_indices(const Op& op, c10::ArrayRef<c10::IValue> arguments);

} // namespace ftm
