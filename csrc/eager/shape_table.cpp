#include "eager/shape_table.h"

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

} // namespace ftm
