// Random ops in the reference executor. As in the compiler's lowering, element i of a result is a
// function of (seed, offset, i).
#pragma once

#include "graph/call_spec.h"

#include <ATen/core/stack.h>

namespace ftm {

// Runs one call of an op that draws random numbers. `stack` has the arguments, and has the results
// afterwards. Throws the op's errors.
void run_random_reference(
    const CallSpec& spec, torch::jit::Stack& stack, uint64_t seed, uint64_t offset);

} // namespace ftm
