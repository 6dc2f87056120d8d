// Writes to expanded tensors, in which several positions share an element.
#pragma once

#include <ATen/core/Tensor.h>

namespace ftm {

// Returns a view with each element once: expanded dimensions get size 1.
at::Tensor without_expansion(const at::Tensor& self);

} // namespace ftm
