#include "ops/find_composite_kernel.h"

namespace ftm {
namespace {

// For a structured op, ATen's generic kernel only infers the result's shape and calls the op's out=
// variant.
bool is_structured(const c10::OperatorHandle& op) {
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
    return false;
  }
  std::string base = op.operator_name().name;
  if (base.back() == '_') {
    base.pop_back();
  }
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto overload = op.operator_name().overload_name;
  for (const auto& name :
       {overload.empty() ? std::string("out") : overload + "_out", std::string("out")}) {
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

std::optional<c10::DispatchKey> find_composite_kernel(
    const c10::OperatorHandle& op, CompositeUse use) {
  using c10::DispatchKey;
  if (use == CompositeUse::unfit) {
    return std::nullopt;
  }
  constexpr auto kNonFunctional = DispatchKey::CompositeExplicitAutogradNonFunctional;
  if (op.hasKernelForDispatchKey(kNonFunctional) &&
      (use == CompositeUse::serves || !is_structured(op))) {
    return kNonFunctional;
  }
  if (op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd)) {
    return DispatchKey::CompositeExplicitAutograd;
  }
  return std::nullopt;
}

} // namespace ftm
