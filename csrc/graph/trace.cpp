#include "graph/trace.h"

#include <algorithm>

namespace ftm {

Trace make_trace(const Graph& graph) {
  Trace trace;
  for (const auto* parameter : graph.parameters) {
    trace.parameters.push_back(parameter->type(0));
  }
  auto next = graph.operands.begin();
  for (const auto* call : graph.calls) {
    const auto count = static_cast<std::ptrdiff_t>(call->values.size());
    trace.calls.push_back({call->spec_ptr(), {next, next + count}});
    next += count;
  }
  trace.results = graph.result_numbers;
  for (const auto& result : graph.results) {
    trace.result_types.push_back(type_of(result));
  }
  return trace;
}

bool operator==(const Trace& a, const Trace& b) {
  const auto is_same_value = [](ValueNumber x, ValueNumber y) { return x.word() == y.word(); };
  const auto is_same_call = [&](const Trace::Call& x, const Trace::Call& y) {
    return x.spec->words() == y.spec->words() &&
           std::equal(
               x.operands.begin(), x.operands.end(), y.operands.begin(), y.operands.end(),
               is_same_value);
  };
  return a.parameters == b.parameters &&
         std::equal(a.calls.begin(), a.calls.end(), b.calls.begin(), b.calls.end(), is_same_call) &&
         std::equal(
             a.results.begin(), a.results.end(), b.results.begin(), b.results.end(), is_same_value);
}

} // namespace ftm
