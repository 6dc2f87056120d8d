// Ops with as many results as a mask has ones.
#include "eager_checks/mask_counts.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/index.h>
#include <ATen/ops/nonzero.h>
#include <torch/library.h>

namespace ftm {
namespace {

at::Tensor nonzero(const at::Tensor& self) {
  return at::nonzero(elements_on_cpu(
                         self, "aten::nonzero",
                         "Say that the tensor is to be read: nonzero of tensor.cpu()."))
      .to(self.device());
}

at::Tensor masked_select(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  const auto [values, where] = at::expand_outplace(self, mask, "masked_select");
  if (self.dim() == 0 && mask.dim() == 0) {
    return at::index(values->reshape({1}), {where->reshape({1})});
  }
  return at::index(*values, {*where});
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("nonzero", TORCH_FN(nonzero));
  library.impl("masked_select", TORCH_FN(masked_select));
}

} // namespace ftm
