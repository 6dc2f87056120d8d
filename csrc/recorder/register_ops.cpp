#include "recorder/register_ops.h"

#include "ops/composite_kernel.h"
#include "recorder/record.h"

#include <ATen/core/enum_tag.h>
#include <torch/library.h>

#include <unordered_set>

namespace ftm {
namespace {

// Ops with a composite kernel that the compiler takes whole, because as they are they lower better.
const std::unordered_set<std::string>& taken_whole() {
  static const std::unordered_set<std::string> names = {
      "aten::all.dims",
      "aten::all.dims_out",
      "aten::any.dims",
      "aten::any.dims_out",
      "aten::cummax",
      "aten::cummax.out",
      "aten::cummin",
      "aten::cummin.out",
      "aten::embedding",
      "aten::logcumsumexp",
      "aten::logcumsumexp.out",
      "aten::masked_scatter_backward",
      "aten::mish_backward",
      "aten::native_layer_norm",
      "aten::native_group_norm",
      "aten::silu_backward",
  };
  return names;
}

// An op reaches a backend if ATen has a kernel for one, and none that is made of other ops. Kernels made
// only for functional forms of in-place ops don't count: recording does that itself. In-place views
// (as_strided_) change sizes and strides only: theirs serve.
bool reaches_backend(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  if (op.hasTag(at::Tag::inplace_view)) {
    return false;
  }
  if (op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) ||
      op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd)) {
    return false;
  }
  return op.hasKernelForDispatchKey(DispatchKey::CPU) || op.hasKernelForDispatchKey(DispatchKey::Meta) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
}

// Pinning, sparse and quantized tensors, and what only makes sense where memory has an address.
bool is_foreign(const std::string& name) {
  static const std::vector<std::string> prefixes = {
      "aten::_sparse",      "aten::sparse_",   "aten::quantize",   "aten::_quantize",
      "aten::mkldnn",       "aten::_mkldnn",   "aten::_cudnn",     "aten::cudnn",
      "aten::miopen",       "aten::_nested",   "aten::is_pinned",  "aten::_pin_mem",
      "aten::_coalesc",     "aten::to_sparse", "aten::_to_sparse", "aten::_efficientzerotensor",
      "aten::record_stream"};
  for (const auto& prefix : prefixes) {
    if (name.compare(0, prefix.size(), prefix) == 0) {
      return true;
    }
  }
  return false;
}

} // namespace

void register_recorded_ops() {
  // Kernels live as long as the library object: for ever.
  static auto* library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.compare(0, 6, "aten::") != 0 || is_foreign(name.name)) {
      continue;
    }
    const auto op = dispatcher.findSchema(name);
    const auto full = full_name(name);
    const bool wanted = op && (reaches_backend(*op) || taken_whole().count(full) != 0 || is_never_composite(full));
    if (!wanted || op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) {
      continue;
    }
    library->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<RecordKernel>(full)));
  }
}

} // namespace ftm
