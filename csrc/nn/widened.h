// The type in which ops compute with 16-bit floats.
#pragma once

#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>

namespace ftm {

// Returns 16-bit floats as float32, and other types as they are.
inline at::Tensor widened(const at::Tensor& tensor) {
  return tensor.to(at::toOpMathType(tensor.scalar_type()));
}

} // namespace ftm
