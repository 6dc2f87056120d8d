// Calls on sparse tensors that run on the CPU, counted.
#pragma once

#include "ops/op_info.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

namespace ftm {

// The CPU's kernels by the layouts of the operands, which the dense fallback does not look at. What
// they write to an argument is written back.
void run_on_cpu(const Op& op, torch::jit::Stack& stack);

// Registers the fallback for each op of which the CPU has a kernel for sparse tensors and the
// device has none. Otherwise the dispatcher would take kernels of other ops first, which expect
// dense tensors.
void register_sparse_fallbacks();

// One that returns a tensor.
template <typename... Arguments>
at::Tensor on_the_cpu(const char* name, const Arguments&... arguments) {
  torch::jit::Stack stack{arguments...};
  run_on_cpu(op_named(name), stack);
  return stack.back().toTensor();
}

} // namespace ftm
