// Reads device memory from the CPU.
#pragma once

#include <ATen/core/Tensor.h>

namespace ftm {

// Returns the elements as a CPU tensor, to be treated as read-only; it shares the device's memory
// if possible. Launches what is pending, waits, and throws the program's error. Ignores lazy
// conjugation and negation. Must not be called under the recorder's lock.
at::Tensor observed(const at::Tensor& self);

} // namespace ftm
