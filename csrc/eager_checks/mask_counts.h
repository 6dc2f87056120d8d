// Result sizes that depend on a mask's elements. The elements are read on the CPU: directly if they
// came from there, or computed there if that is cheap (sync/decisions_on_cpu.h). Otherwise the
// device must run first, which is counted as `sync::<op>`.
#pragma once

#include "ops/op_info.h"

namespace ftm {

// Returns the tensor's elements on the CPU, to be treated as read-only, for an op whose result size
// depends on them. `name` is the op, for counters and errors. Throws in strict mode, with the
// sentence `instead` as a suggestion. Must not be called under the recorder's lock.
at::Tensor elements_on_cpu(
    const at::Tensor& tensor, const std::string& name, const std::string& instead);

// Replaces the masks among a call's indices by integer indices. Returns false if there are none.
bool replace_masks(const Op& op, torch::jit::Stack& stack);

} // namespace ftm
