// The CPU's random numbers, for ops that draw there: reproducible from the device's generator.
#pragma once

#include "random/philox.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace ftm {

// While it lives, the op whose arguments end the stack draws on the CPU from a stream that follows
// from `draw`: it is given a generator, or, where it takes none, the CPU's own one is lent and put
// back as it was.
class CpuStream {
 public:
  CpuStream(const c10::OperatorHandle& op, torch::jit::Stack& stack, const RandomDraw& draw);
  ~CpuStream();
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;

 private:
  at::Tensor lent_state_; // of the CPU's own generator
};

} // namespace ftm
