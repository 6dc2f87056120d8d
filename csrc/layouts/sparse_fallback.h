// Runs calls on sparse tensors on the CPU, and counts them.
#pragma once

#include "ops/op_info.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

namespace ftm {

// Runs the call on the stack with the CPU's kernel for the operands' layouts, which the dense
// fallback does not support. Copies written arguments back, and new results to the device. Throws
// in strict mode.
void run_on_cpu(const Op& op, torch::jit::Stack& stack);

// Registers the fallback for each op that has a sparse kernel on the CPU and none on the device.
// Otherwise the dispatcher would prefer composite kernels, which expect dense tensors. Call it
// once.
void register_sparse_fallbacks();

// Does the same for an op by name, and returns its result.
template <typename... Arguments>
at::Tensor on_the_cpu(const char* name, const Arguments&... arguments) {
  torch::jit::Stack stack{arguments...};
  run_on_cpu(op_named(name), stack);
  return stack.back().toTensor();
}

} // namespace ftm
