// Reads that decide what Python does next: a condition, a number, or a mask whose number of ones is
// a result's size. The CPU computes some of them, and other pending calls stay pending:
//
//  - Booleans that need at most four small operations, since a launch takes longer. Example:
//    `if not (boxes[:, 2:] >= boxes[:, :2]).all():`. Also numbers that need as few operations on
//    single numbers from the CPU.
//  - Booleans and integers in a loop of decisions (non-maximum suppression), which would compile
//    and launch a program for each: from the third one in a row on, if it needs few and small
//    operations, unless the program is in memory and a launch takes less time. Example: an agent's
//    policy checks its distribution in each step, by the same program.
//
// Callers count it; strict mode forbids it.
#pragma once

#include <ATen/core/Tensor.h>

namespace ftm {

// Returns the tensor's elements, to be treated as read-only, if the CPU computes them; an undefined
// tensor if they must be read from the device. Other pending calls stay pending. Throws the error
// of a program on which the elements depend. Must not be called under the recorder's lock.
at::Tensor decided_on_cpu(const at::Tensor& tensor);

} // namespace ftm
