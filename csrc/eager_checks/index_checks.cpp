#include "eager_checks/index_checks.h"

#include "shape_inference/meta_calls.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_meta_dispatch.h>

#include <algorithm>

namespace ftm {
namespace {

using Indices = c10::List<std::optional<at::Tensor>>;

bool is_mask(const at::Tensor& index) {
  return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
}

// Returns the assumed number of elements that a mask selects, as the only index: the number of
// values for them, at most the size of the mask.
int64_t assumed_count(
    const at::Tensor& self, int64_t front, const at::Tensor& mask, const at::Tensor& values) {
  const int64_t trailing = self.dim() - front - mask.dim();
  const int64_t dim = values.dim() - 1 - trailing;
  const int64_t count = dim < 0 ? 1 : values.size(dim);
  return std::min(count, mask.numel());
}

// Returns the indices on the meta device, with masks replaced by the integer indices that they
// stand for.
Indices on_meta(const at::Tensor& self, const Indices& indices, const at::Tensor& values) {
  Indices result;
  for (const std::optional<at::Tensor> index : indices) {
    if (!index || !index->defined()) {
      result.push_back(std::nullopt);
    } else if (!is_mask(*index)) {
      result.push_back(meta_like(*index));
    } else {
      const auto front = static_cast<int64_t>(result.size());
      check_mask(self, front, *index);
      const int64_t count = assumed_count(self, front, *index, values);
      for (int64_t i = 0; i < index->dim(); ++i) {
        result.push_back(at::empty({count}, self.options().device(at::kMeta).dtype(at::kLong)));
      }
    }
  }
  return result;
}

} // namespace

bool writes_at_indices(const Op& op) {
  return op.functional.schema().arguments().size() > 2;
}

void check_mask(const at::Tensor& self, int64_t front, const at::Tensor& mask) {
  TORCH_CHECK_INDEX(
      front + mask.dim() <= self.dim(), "too many indices for tensor of dimension ", self.dim());
  for (int64_t i = 0; i < mask.dim(); ++i) {
    TORCH_CHECK_INDEX(
        mask.size(i) == self.size(front + i), "The shape of the mask ", mask.sizes(), " at index ",
        i, " does not match the shape of the indexed tensor ", self.sizes(), " at index ",
        front + i);
  }
}

void check_indexing(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  const auto& self = arguments[0].toTensor();
  const auto indices = arguments[1].toOptionalTensorList();
  const bool writes = writes_at_indices(op);
  int64_t chosen = 0, masks = 0;
  for (const std::optional<at::Tensor> index : indices) {
    if (index && index->defined()) {
      chosen += 1;
      masks += is_mask(*index);
    }
  }
  if (chosen == 0) {
    throw_as_eager(op, arguments);
  }
  if (masks != 0 && (!writes || chosen != 1)) {
    return; // becomes a call without masks, or runs on the CPU
  }
  const at::Tensor values = writes ? arguments[2].toTensor() : at::Tensor();
  TORCH_CHECK_INDEX(
      indices.size() <= static_cast<size_t>(self.dim()),
      "too many indices for tensor of dimension ", self.dim(), " (got ", indices.size(), ")");
  const at::Tensor selected = at::meta::index(meta_like(self), on_meta(self, indices, values));
  if (writes) {
    TORCH_CHECK(
        at::is_expandable_to(values.sizes(), selected.sizes()),
        "shape mismatch: value tensor of shape ", values.sizes(),
        " cannot be broadcast to indexing result of shape ", selected.sizes());
    // Filling by a mask converts the value.
    const bool fills = masks != 0 && values.numel() == 1 && !arguments[3].toBool();
    TORCH_CHECK(
        fills || values.scalar_type() == self.scalar_type(),
        "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
        " for the destination and ", values.scalar_type(), " for the source.");
  }
}

} // namespace ftm
