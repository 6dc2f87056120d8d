// Random ops of the reference executor: element i of a result is a function of (seed, offset, i),
// as in the compiler's lowering.
#pragma once

#include "graph/call_spec.h"

#include <ATen/core/stack.h>

namespace ftm {

// One call of an op that draws random numbers, with the machine's generator. `stack`: the
// arguments; becomes the results.
void run_random_reference(
    const CallSpec& spec, torch::jit::Stack& stack, uint64_t seed, uint64_t offset);

} // namespace ftm
