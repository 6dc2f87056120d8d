// Writing to tensors that name an element more than once, because they were expanded.
#pragma once

#include <ATen/core/Tensor.h>

namespace ftm {

// A view of the tensor with each element once: expanded dimensions have one.
at::Tensor each_once(const at::Tensor& self);

} // namespace ftm
