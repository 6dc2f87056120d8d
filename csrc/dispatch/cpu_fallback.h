// Ops that the compiler doesn't take run on the CPU, counted and warned of.
#pragma once

#include "ops/op_info.h"

#include <ATen/core/stack.h>

namespace ftm {

// Says and counts that the op runs on the CPU; throws in strict mode.
void count_fallback(const Op& op);
// Cuts, runs the call that is on the stack on the CPU, and brings the results back.
void run_fallback(const Op& op, torch::jit::Stack* stack);

} // namespace ftm
