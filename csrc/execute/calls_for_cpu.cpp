#include "execute/calls_for_cpu.h"

#include "execute/collective_registry.h"
#include "reference/call_on_cpu.h"

#include <algorithm>

namespace ftm {

std::optional<std::vector<const CallNode*>> calls_for_cpu(
    const Value& value, size_t most, c10::function_ref<bool(const Value&)> admits) {
  std::vector<const CallNode*> calls;
  const auto visit = [&](const Value& operand) {
    const auto& node = trace_node(operand);
    if (!admits(operand)) {
      return false;
    }
    if (node.is_data) {
      return true;
    }
    const auto& call = static_cast<const CallNode&>(node);
    if (std::find(calls.begin(), calls.end(), &call) != calls.end()) {
      return true;
    }
    calls.push_back(&call);
    return calls.size() <= most && !draws_numbers(call.spec()) && !communicates(call.spec());
  };
  bool is_for_cpu = visit(value);
  for (size_t i = 0; is_for_cpu && i < calls.size(); ++i) {
    is_for_cpu = std::all_of(calls[i]->values.begin(), calls[i]->values.end(), visit);
  }
  return is_for_cpu ? std::make_optional(std::move(calls)) : std::nullopt;
}

} // namespace ftm
