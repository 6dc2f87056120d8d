// Runs ops that the compiler does not support on the CPU.
#pragma once

#include "ops/op_info.h"

#include <ATen/core/stack.h>

namespace ftm {

// Counts a call that runs on the CPU, and warns of the op's first one. Throws NotImplementedError
// in strict mode and during a capture.
void count_fallback(const Op& op);
// Runs the call on the stack on the CPU: launches the pending trace, copies the operands there and
// the results back. Throws as count_fallback, or the op's error. Must not be called under the
// recorder's lock.
void run_fallback(const Op& op, torch::jit::Stack* stack);

} // namespace ftm
