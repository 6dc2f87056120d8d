#include "ops/composite_kernel.h"

#include <unordered_set>

namespace ftm {
namespace {

// A structured op's kernel for other devices only finds the result's shape and calls the op's out= form.
bool is_structured(const c10::OperatorHandle& op) {
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::CPU) || op.operator_name().name == "aten::narrow_copy") {
    return false; // narrow_copy has a view and a copy, and a meta kernel of its out= form all the same
  }
  std::string base = op.operator_name().name;
  if (base.back() == '_') {
    base.pop_back();
  }
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto overload = op.operator_name().overload_name;
  for (const auto& name : {overload.empty() ? std::string("out") : overload + "_out", std::string("out")}) {
    const auto out = dispatcher.findSchema({base, name});
    if (out && out->hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
      return out->hasKernelForDispatchKey(c10::DispatchKey::Meta);
    }
  }
  return false;
}

} // namespace

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

bool is_never_composite(const std::string& name) {
  static const std::unordered_set<std::string> names = {
      "aten::convolution",        "aten::convolution_backward",
      "aten::index_put_",         "aten::kaiser_window",
      "aten::kaiser_window.beta", "aten::kaiser_window.periodic",
      "aten::mode.values",        "aten::_native_batch_norm_legit_functional",
  };
  return names.count(name) != 0;
}

std::optional<c10::DispatchKey> composite_kernel(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  const auto name = full_name(op.operator_name());
  if (is_never_composite(name)) {
    return std::nullopt;
  }
  constexpr auto kNonFunctional = DispatchKey::CompositeExplicitAutogradNonFunctional;
  if (op.hasKernelForDispatchKey(kNonFunctional) && !is_structured(op)) {
    return kNonFunctional;
  }
  if (op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd)) {
    return DispatchKey::CompositeExplicitAutograd;
  }
  return std::nullopt;
}

} // namespace ftm
