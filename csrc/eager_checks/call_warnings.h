// Warnings of eager's kernels that meta kernels do not give.
#pragma once

#include "ops/op_info.h"

namespace ftm {

// Gives the warnings that eager gives for the call. It runs when a call spec is made: the same call
// on tensors of the same types does not warn again. Python shows a warning once for each line, too.
void warn_as_eager(const Op& op, c10::ArrayRef<c10::IValue> arguments);

// Whether eager resizes the op's outputs without a warning.
bool resizes_silently(const Op& op);

} // namespace ftm
