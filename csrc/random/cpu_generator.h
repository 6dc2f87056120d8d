// The CPU's random numbers, for ops that draw on the CPU, made reproducible from the device's
// generator.
#pragma once

#include "random/philox.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace ftm {

// For its lifetime, the op whose arguments are on top of the stack draws from a CPU stream that is
// seeded by `draw`. An op with a `generator` argument gets a new generator there. For other ops the
// CPU's default generator is reseeded, and restored by the destructor.
class CpuStream {
 public:
  CpuStream(const c10::OperatorHandle& op, torch::jit::Stack& stack, const RandomDraw& draw);
  ~CpuStream();
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;

 private:
  at::Tensor saved_state_; // of the CPU's default generator
};

} // namespace ftm
