#include "dispatch/register_ops.h"

#include "ops/find_composite_kernel.h"
#include "ops/op_traits.h"
#include "dispatch/record.h"
#include "dispatch/unboxed_kernels.h"

#include <ATen/core/enum_tag.h>
#include <torch/library.h>

#include <unordered_set>

namespace ftm {
namespace {

// Whether ATen calls a backend's kernel for the op: it has a kernel for one and no composite
// kernel. Generated kernels for the functional variants of in-place ops do not count, since
// recording does the same. In-place views (as_strided_) only change sizes and strides, which their
// own kernels do.
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

// Ops of other backends, of pinned memory, and of sparse and quantized tensors, and ops that need
// real addresses.
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

// Kernels are unregistered when the Library object is destroyed, so it never is.
torch::Library& library() {
  static auto* instance = new torch::Library(
      torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  return *instance;
}

void register_recording(const c10::OperatorHandle& op) {
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) {
    const auto full = full_name(op.operator_name());
    auto unboxed = unboxed_kernel(op);
    library().impl(
        full.c_str(),
        unboxed ? std::move(*unboxed)

                : torch::CppFunction::makeFromBoxedFunctor(std::make_unique<RecordKernel>(full)));
  }
}

// Whether calls would go to a composite kernel. ATen's generated out= ops do not count; they call
// the op itself.
bool has_composite_kernel(const c10::OperatorHandle& op) {
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
      register_recording(*op);
    }
  }
}

void register_annotated_ops() {
  std::unordered_set<std::string> names;
  for (const auto use : {CompositeUse::whole, CompositeUse::unfit}) {
    for (auto& name : names_with(use)) {
      names.insert(std::move(name));
    }
  }
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = names.count(name.name) != 0 ? dispatcher.findSchema(name) : std::nullopt;
    if (op && has_composite_kernel(*op)) {
      register_recording(*op);
    }
  }
}

} // namespace ftm
