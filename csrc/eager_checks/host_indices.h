// Checks indices whose values came from the CPU when the call is recorded. Indices that the device
// computes are checked by the program that uses them.
#pragma once

#include "ops/op_info.h"

namespace ftm {

// Returns the tensor's elements as a CPU tensor, to be treated as read-only, if they came from the
// CPU; otherwise an undefined tensor.
at::Tensor elements_from_cpu(const at::Tensor& tensor);
// Returns a copy of these elements, or zeros with the tensor's geometry: operands for a CPU kernel
// that raises eager's error.
at::Tensor elements_or_zeros(const at::Tensor& tensor);

// For an op with an index rule: throws eager's error if an index from the CPU is out of bounds.
void check_host_indices(const Op& op, c10::ArrayRef<c10::IValue> arguments);

} // namespace ftm
