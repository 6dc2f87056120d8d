// Places where elements are not 0: how many there are is known when the elements are. A tensor that
// came from the CPU is looked at as it is, and so is what the CPU computes because it is little
// (sync/host_decisions.h); what the device computes has to be run first, which is counted as
// `sync::<op>`.
#pragma once

#include "ops/op_info.h"

namespace ftm {

// The elements of `tensor` on the CPU, where the caller finds how large results are (counted: no
// program does that); if the device has to run for it, `name` is what asked. Throws in strict mode,
// with what to do `instead`: a sentence.
at::Tensor seen_elements(
    const at::Tensor& tensor, const std::string& name, const std::string& instead);

// Replaces masks among a call's indices by the indices that they stand for. False if there are
// none.
bool replace_masks(const Op& op, torch::jit::Stack& stack);

} // namespace ftm
