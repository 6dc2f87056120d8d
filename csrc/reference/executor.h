// The reference executor: a trace, call by call, on the CPU through ATen. It runs what the compiler
// could not, and is the oracle of differential tests.
#pragma once

#include "graph/trace.h"
#include "program/source_origin.h"

namespace ftm {

struct ReferenceResults {
  std::vector<at::Tensor> tensors; // of any strides; undefined: not reached
  FailurePtr failure; // of the call that threw, and ended the run; null if none did
};

// inputs: one for each parameter. before_call: called before each call; what it throws ends the run
// and is thrown on.
ReferenceResults run_reference(
    const Trace& trace, std::vector<at::Tensor> inputs, const std::vector<uint64_t>& scalars,
    const Origin& origin, void (*before_call)());

// Whether calls of this form draw random numbers: their last two operands are a seed and an offset.
bool draws_numbers(const CallSpec& spec);

// An input's elements as a row-major CPU tensor that shares its memory.
at::Tensor dense_on_cpu(const Input& input, const ValueType& type);
// Writes a result to the buffer's memory, row-major.
void store_on_cpu(const at::Tensor& result, const ValueType& type, const Buffer& buffer);

} // namespace ftm
