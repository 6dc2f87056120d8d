// Runs one recorded call on the CPU through ATen.
#pragma once

#include "graph/call_spec.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <vector>

namespace ftm {

// For its lifetime, the calling thread runs kernels that compute values and nothing else: without
// autograd; without autocast, whose casts were recorded as calls; and without Python dispatch
// modes. (AOTAutograd traces a graph's first call with one, through which a kernel's exception
// would not pass.)
class ValuesOnlyGuard {
 public:
  ValuesOnlyGuard();

 private:
  at::AutoDispatchBelowADInplaceOrView no_autograd_;
  c10::impl::ExcludeDispatchKeyGuard no_modes_;
};

// Runs a call and appends its results, of any strides. The calling thread has a ValuesOnlyGuard.
// `operands` has a CPU tensor of any strides for each value operand, `scalars` points to the bits
// of the other operands. Throws the op's error.
void run_on_cpu(
    const CallSpec& spec, c10::ArrayRef<at::Tensor> operands, const uint64_t* scalars,
    std::vector<at::Tensor>& results);

// Whether calls with this spec draw random numbers. Their last two operands are the seed and the
// offset.
bool draws_numbers(const CallSpec& spec);

} // namespace ftm
