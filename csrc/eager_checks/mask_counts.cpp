#include "eager_checks/mask_counts.h"

#include "eager_checks/index_checks.h"
#include "eager_checks/host_indices.h"
#include "support/counters.h"
#include "support/strict_mode.h"
#include "execute/integers_on_cpu.h"
#include "sync/decisions_on_cpu.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/nonzero.h>

#include <algorithm>

namespace ftm {
namespace {

bool is_selecting(const at::Tensor& index) {
  return index.defined() && (index.scalar_type() == at::kBool || index.scalar_type() == at::kByte);
}

// If one mask selects where to write one element, eager calls masked_fill_, which rejects byte
// masks. It does not if it accumulates.
void check_byte_mask(
    const Op& op, const at::Tensor& values, const std::vector<std::optional<at::Tensor>>& indices) {
  const at::Tensor* mask = nullptr;
  int count = 0;
  for (const auto& index : indices) {
    if (index && index->defined()) {
      mask = &*index;
      ++count;
    }
  }
  if (op.written.empty() || values.numel() != 1 || count != 1) {
    return;
  }
  TORCH_CHECK(
      mask->scalar_type() != at::kByte || mask->is_cpu(),
      "masked_fill_ only supports boolean masks, but got mask with dtype ", mask->dtype());
}

} // namespace

at::Tensor elements_on_cpu(
    const at::Tensor& tensor, const std::string& name, const std::string& instead) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !is_strict(), name,
      " has to find on the CPU how many results there are, and FTM_STRICT forbids to. ", instead,
      " Or unset FTM_STRICT.");
  counter("places_on_cpu").fetch_add(1, std::memory_order_relaxed);
  at::Tensor elements = elements_from_cpu(tensor);
  if (elements.defined()) {
    return elements;
  }
  if (at::Tensor integers = integers_on_cpu(tensor); integers.defined()) {
    return integers;
  }
  if (at::Tensor decided = decided_on_cpu(tensor); decided.defined()) {
    return decided;
  }
  if (tensor.numel() != 0) {
    counter("sync::" + name).fetch_add(1, std::memory_order_relaxed);
  }
  return tensor.cpu();
}

bool replace_masks(const Op& op, torch::jit::Stack& stack) {
  const size_t base = stack.size() - op.arguments.size();
  const at::Tensor self = stack[base].toTensor();
  if (writes_at_indices(op) && !stack[base + 3].toBool()) {
    check_byte_mask(op, stack[base + 2].toTensor(), stack[base + 1].toOptionalTensorVector());
  }
  c10::List<std::optional<at::Tensor>> indices;
  bool found = false;
  for (const std::optional<at::Tensor>& index : stack[base + 1].toOptionalTensorVector()) {
    if (!index || !is_selecting(*index)) {
      indices.push_back(index);
      continue;
    }
    const at::Tensor mask = *index;
    found = true;
    if (mask.scalar_type() == at::kByte) {
      TORCH_WARN(
          "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool "
          "instead.");
    }
    check_mask(self, static_cast<int64_t>(indices.size()), mask);
    const at::Tensor places = at::nonzero(
        mask.is_cpu() ? mask
                      : elements_on_cpu(
                            mask, op.called_name,
                            "Keep the size (torch.where, masked_fill, a product with the mask), or "
                            "say that the mask is to be read: index by "
                            "mask.cpu().nonzero(as_tuple=True)."));
    for (int64_t i = 0; i < mask.dim(); ++i) {
      indices.push_back(places.select(1, i).contiguous().to(self.device()));
    }
    if (mask.dim() == 0) { // a 0-dim mask selects everything or nothing
      return false;
    }
  }
  if (found) {
    stack[base + 1] = std::move(indices);
  }
  return found;
}

} // namespace ftm
