// Random ops whose arguments no draw can have.
#pragma once

#include "ops/op.h"

namespace ftm {

// Throws what eager throws for them (a negative deviation, bounds the wrong way round). `op`: a random op; its arguments
// as the user gave them.
void check_draw(const Op& op, c10::ArrayRef<c10::IValue> arguments);

} // namespace ftm
