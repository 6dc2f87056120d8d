#include "dispatch/register_ops.h"

#include "ops/composite_kernel.h"
#include "ops/schema_annotations.h"
#include "dispatch/record.h"
#include "dispatch/unboxed_kernels.h"

#include <ATen/core/enum_tag.h>
#include <torch/library.h>

#include <unordered_set>

namespace ftm {
namespace {

// An op reaches a backend if ATen has a kernel for one, and none that is made of other ops. Kernels
// made only for functional forms of in-place ops don't count: recording does that itself. In-place
// views (as_strided_) change sizes and strides only: theirs serve.
bool reaches_backend(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  if (op.hasTag(at::Tag::inplace_view)) {
    return false;
  }
  if (op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) ||
      op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd)) {
    return false;
  }
  return op.hasKernelForDispatchKey(DispatchKey::CPU) ||
         op.hasKernelForDispatchKey(DispatchKey::Meta) ||
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

// Kernels live as long as the library object: for ever.
torch::Library& library() {
  static auto* made = new torch::Library(
      torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  return *made;
}

void record_calls_of(const c10::OperatorHandle& op) {
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) {
    const auto full = full_name(op.operator_name());
    auto typed = typed_kernel(op);
    library().impl(
        full.c_str(),
        typed ? std::move(*typed)
              : torch::CppFunction::makeFromBoxedFunctor(std::make_unique<RecordKernel>(full)));
  }
}

// Whether calls would be left to a kernel that is made of other ops; not so the out= forms that
// ATen generates, which call the op itself.
bool is_left_to_others(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  if (op.hasTag(at::Tag::generated) && op.hasTag(at::Tag::out)) {
    return false;
  }
  return op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
         (op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) &&
          op.hasKernelForDispatchKey(DispatchKey::CPU));
}

} // namespace

void register_recorded_ops() {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.compare(0, 6, "aten::") != 0 || is_foreign(name.name)) {
      continue;
    }
    const auto op = dispatcher.findSchema(name);
    if (op && reaches_backend(*op)) {
      record_calls_of(*op);
    }
  }
}

void register_ops_of_records() {
  std::unordered_set<std::string> names;
  for (const auto use : {CompositeUse::whole, CompositeUse::unfit}) {
    for (auto& name : names_with(use)) {
      names.insert(std::move(name));
    }
  }
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = names.count(name.name) != 0 ? dispatcher.findSchema(name) : std::nullopt;
    if (op && is_left_to_others(*op)) {
      record_calls_of(*op);
    }
  }
}

} // namespace ftm
