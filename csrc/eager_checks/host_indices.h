// Tensors whose elements came from the CPU. An index outside is found where the call is recorded;
// those that the device computes are looked at by the program that uses them.
#pragma once

#include "ops/op_info.h"

namespace ftm {

// The tensor's elements if they came from the CPU, as a tensor there; for reading only. Undefined
// if they did not.
at::Tensor elements_from_cpu(const at::Tensor& tensor);
// They, or zeros like the tensor: what to ask an eager kernel with.
at::Tensor known_or_zeros(const at::Tensor& tensor);

// For an op with an index rule: throws what the eager op throws for an index outside, if the
// indices are known.
void check_known_indices(const Op& op, c10::ArrayRef<c10::IValue> arguments);

} // namespace ftm
