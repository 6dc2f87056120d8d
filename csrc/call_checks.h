// Calls that meta kernels take though eager refuses them.
#pragma once

#include "op.h"

namespace ftm {

// Throws what the eager op throws where its meta kernel doesn't look.
void check_call(const Op& op, c10::ArrayRef<c10::IValue> arguments);

} // namespace ftm
