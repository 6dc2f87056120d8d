// Reads that decide what Python does next: a condition, or a mask whose number of ones is a
// result's size. A loop of such reads (non-maximum suppression) would compile and launch a program
// of a few small operations for each. From the third read in a row on, the CPU computes the
// decision if that takes few and small operations, unless the program is in memory and a launch
// takes less time. Example: an agent's policy checks its distribution in each step, by the same
// program. Callers count it; strict mode forbids it.
#pragma once

#include <ATen/core/Tensor.h>

namespace ftm {

// Returns the tensor's elements, to be treated as read-only, if the CPU computes them; an undefined
// tensor if they must be read from the device. Other pending calls stay pending. Throws the error
// of a program on which the elements depend. Must not be called under the recorder's lock.
at::Tensor decided_on_cpu(const at::Tensor& tensor);

} // namespace ftm
