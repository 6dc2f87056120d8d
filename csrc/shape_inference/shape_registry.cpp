#include "shape_inference/shape_registry.h"

#include <ATen/TensorIterator.h>

namespace ftm {

at::Tensor elementwise(at::ScalarType dtype, at::TensorList tensors) {
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).add_owned_output(contiguous_meta({0}, dtype));
  for (const auto& tensor : tensors) {
    config.add_const_input(tensor);
  }
  return config.build().output();
}

bool resize_out(at::Tensor& out, const MetaResult& result) {
  if (!result || out.scalar_type() != result->scalar_type() ||
      (out.numel() != 0 && out.sizes() != result->sizes())) {
    return false;
  }
  out.resize_(result->sizes());
  return true;
}

} // namespace ftm
