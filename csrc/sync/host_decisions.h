// Reads that decide what Python does next: a condition, or a mask, whose ones are the size of a
// result. A loop of such reads, as in non-maximum suppression, would launch a program of a few
// small operations for each of them. From the third one in a row on, the CPU computes what the
// decision needs, if that is little. Callers count it; strict mode forbids it.
#pragma once

#include <ATen/core/Tensor.h>

namespace ftm {

// The elements of `tensor`, for reading only, if the CPU computes them; undefined where the device
// has to be asked. What else is pending stays so. Throws what went wrong in a program that the
// elements depend on. Not under the recorder's lock.
at::Tensor decided_on_cpu(const at::Tensor& tensor);

} // namespace ftm
