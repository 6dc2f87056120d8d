#include "execute/host_conditions.h"

#include "graph/ordered_graph.h"
#include "graph/trace.h"
#include "support/capture_mode.h"
#include "support/counters.h"
#include "support/strict_mode.h"
#include "execute/launcher.h"
#include "reference/executor.h"
#include "tensor/tensor_access.h"

#include <algorithm>
#include <utility>

namespace ftm {
namespace {

constexpr int64_t kMostPending =
    32; // calls: a longer trace is launched where it is read, as a step of a model is
constexpr size_t kMostCalls = 16; // that the CPU makes for one value
constexpr int64_t kMostElements = 1 << 16; // of each of them
constexpr int kMostLaunches = 8; // that lie between a value and what came from the CPU

// On buffers that programs compute: how their elements follow from known ones.
struct HostExpression final : torch::lazy::BackendData::Info {
  HostExpression(Value value, int launches) : value(std::move(value)), launches(launches) {}

  // Under the recorder's lock:
  Value value; // null when it was evaluated
  BufferPtr elements;
  int launches;
};

HostExpression* recipe_of(const Buffer& buffer) {
  return buffer.is_from_cpu() ? nullptr : static_cast<HostExpression*>(buffer.info());
}

bool is_exact(const ValueType& type) {
  return c10::isIntegralType(type.dtype, /*includeBool=*/true) && type.numel() <= kMostElements;
}

enum class Leaves {
  known, // values from the CPU, and what is known of results
  any, // what programs have computed as well: it is there when they have run
};

// How many launches lie behind a value that hangs on such leaves alone; nothing for others.
std::optional<int> launches_behind(const Value& value, Leaves leaves) {
  c10::SmallVector<const CallNode*, kMostCalls> calls;
  int launches = 0;
  const auto visit = [&](const Value& operand) {
    const auto& node = trace_node(operand);
    if (!is_exact(type_of(operand))) {
      return false;
    }
    if (node.is_data) {
      const auto& buffer = *static_cast<const DataNode&>(node).buffer();
      const auto* recipe = recipe_of(buffer);
      launches = std::max(launches, recipe != nullptr ? recipe->launches : 0);
      return leaves == Leaves::any || buffer.is_from_cpu() || recipe != nullptr;
    }
    const auto& call = static_cast<const CallNode&>(node);
    if (std::find(calls.begin(), calls.end(), &call) != calls.end()) {
      return true;
    }
    calls.push_back(&call);
    return calls.size() <= kMostCalls && call.spec().results.size() == 1 &&
           !draws_numbers(call.spec());
  };
  bool known = visit(value);
  for (size_t i = 0; known && i < calls.size(); ++i) {
    known = std::all_of(calls[i]->values.begin(), calls[i]->values.end(), visit);
  }
  return known ? std::make_optional(launches) : std::nullopt;
}

BufferPtr evaluated(const Value& value);

// Null where the CPU refuses what it is computed from: the program then says so. Throws what went
// wrong in a program.
BufferPtr known_elements(const BufferPtr& buffer) {
  auto* recipe = recipe_of(*buffer);
  if (recipe == nullptr) {
    wait_for(buffer);
    return buffer;
  }
  Value value;
  {
    const RecorderLock lock(recorder_mutex());
    if (recipe->elements) {
      return recipe->elements;
    }
    value = recipe->value;
  }
  auto found = evaluated(value);
  if (found) {
    const RecorderLock lock(recorder_mutex());
    recipe->elements = found;
    recipe->launches = 0;
    recipe->value = Value();
  }
  return found; // `value` is freed here, without the lock
}

BufferPtr evaluated(const Value& value) {
  Graph graph;
  Trace trace;
  std::vector<Input> leaves;
  {
    const RecorderLock lock(recorder_mutex());
    graph = collect_graph({value});
    trace = make_trace(graph);
    for (const auto* leaf : graph.parameters) {
      leaves.emplace_back(
          leaf->buffer(),
          leaf->offset() * static_cast<int64_t>(c10::elementSize(leaf->type(0).dtype)));
    }
  }
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < leaves.size(); ++i) {
    leaves[i].buffer = known_elements(leaves[i].buffer);
    if (!leaves[i].buffer) {
      return nullptr;
    }
    inputs.push_back(dense_on_cpu(leaves[i], trace.parameters[i]));
  }
  const auto results = run_reference(trace, std::move(inputs), graph.scalars, Origin(), [] {});
  return results.failure ? nullptr : Buffer::from_cpu(results.tensors[0]);
}

// The value of a pending condition that is known; null for others.
Value pending_known(const Region& region, const PendingTrace& own) {
  const bool may_be = region.is_whole && region.variable.trace() == &own &&
                      own.calls.load(std::memory_order_relaxed) < kMostPending &&
                      type_of(region.variable.value()).numel() == 1;
  return may_be && launches_behind(region.variable.value(), Leaves::any) ? region.variable.value()
                                                                         : Value();
}

} // namespace

std::optional<bool> known_condition(const at::Tensor& tensor) {
  if (capturing || is_strict() || tensor.scalar_type() != at::kBool || tensor.numel() != 1) {
    return std::nullopt;
  }
  static auto& answered = counter("conditions_on_cpu");
  const Region region = region_of(*tensor.unsafeGetTensorImpl());
  Value value;
  {
    const RecorderLock lock(recorder_mutex());
    value = pending_known(region, pending_trace());
  }
  const auto buffer = value.node ? evaluated(value) : nullptr;
  if (!buffer) {
    return std::nullopt;
  }
  answered.fetch_add(1);
  Value old; // freed after the lock
  const RecorderLock lock(recorder_mutex());
  if (region.variable.value().node == value.node && region.variable.trace() != nullptr) {
    old = region.variable.set_computed(
        data_value(buffer, type_of(value))); // it is no result of the next program
  }
  return *static_cast<const bool*>(buffer->data());
}

void keep_known(const Value& result, const Value& made) {
  if (!is_exact(type_of(result)) || is_strict()) {
    return;
  }
  const auto launches = launches_behind(result, Leaves::known);
  if (launches && *launches < kMostLaunches) {
    static_cast<const DataNode&>(trace_node(made))
        .buffer()
        ->SetInfo(std::make_shared<HostExpression>(result, *launches + 1));
  }
}

} // namespace ftm
