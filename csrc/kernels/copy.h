// Reading the device's memory from the CPU.
#pragma once

#include <ATen/core/Tensor.h>

namespace ftm {

// A CPU tensor that shares the device's memory where it can; for reading only. What is pending runs
// first. Ignores lazy conjugation and negation.
at::Tensor observed(const at::Tensor& self);

} // namespace ftm
