// Random numbers are a function of (seed, offset, element): the generator hands out offsets, programs
// compute.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <array>
#include <cstdint>
#include <string>

namespace ftm {

struct Op;

struct RandomDraw {
  uint64_t seed;
  uint64_t offset;
};

// The next draw of a generator argument: a Generator, or None for the default one.
RandomDraw next_random_draw(const c10::IValue& generator);

// Throws what eager throws for arguments that no draw can have (a negative deviation, bounds the wrong way round).
// `op`: a random op; its arguments as the user gave them.
void check_draw(const Op& op, c10::ArrayRef<c10::IValue> arguments);

// While it lives, the op whose arguments end the stack draws on the CPU from a stream that follows from `draw`: it is
// given a generator, or, where it takes none, the CPU's own one is lent and put back as it was.
class CpuStream {
 public:
  CpuStream(const c10::OperatorHandle& op, torch::jit::Stack& stack, const RandomDraw& draw);
  ~CpuStream();
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;

 private:
  at::Tensor lent_state_; // of the CPU's own generator
};

const at::Generator& default_generator();
at::Generator make_generator();

// Word `index % 4` of Philox4x32-10 for counter (index / 4, offset) and key `seed`.
uint32_t philox_word(uint64_t index, uint64_t seed, uint64_t offset);

} // namespace ftm
