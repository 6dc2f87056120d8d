#include "execute/integers_on_cpu.h"

#include "graph/ordered_graph.h"
#include "support/capture_mode.h"
#include "support/strict_mode.h"
#include "execute/calls_for_cpu.h"
#include "execute/launcher.h"
#include "reference/executor.h"
#include "tensor/tensor_access.h"

#include <algorithm>
#include <utility>

namespace ftm {

// An expression for the elements of a buffer that a program computes, which the CPU can evaluate.
struct HostExpression {
  HostExpression(Value value, int launches) : value(std::move(value)), launches(launches) {}

  // Guarded by the recorder's lock.
  Value value; // null once it has been evaluated
  BufferPtr elements;
  int launches;
};

namespace {

// With more pending calls the CPU evaluates only what no program computes. It would otherwise wait
// for a program while the device could run the pending calls.
constexpr int64_t kMaxPendingCalls = 32;
constexpr size_t kMaxEvaluatedCalls = 16; // on the CPU, for one value
constexpr int64_t kMaxElements = 1 << 16; // of each value that they compute
constexpr int kMaxLaunches = 8; // between a value and the values from the CPU that it depends on

bool is_small_integer(const ValueType& type) {
  return c10::isIntegralType(type.dtype, /*includeBool=*/true) && type.numel() <= kMaxElements;
}

enum class Leaves {
  host, // values from the CPU, and results with a HostExpression
  any, // also other results of programs, which are available once these have run
};

// Returns the number of launches between a value and its leaves, or nullopt if the CPU cannot
// evaluate it from such leaves.
std::optional<int> launches_behind(const Value& value, Leaves leaves) {
  int launches = 0;
  const auto admits = [&](const Value& operand) {
    if (!is_small_integer(type_of(operand))) {
      return false;
    }
    const auto& node = trace_node(operand);
    if (!node.is_data) {
      return true;
    }
    const auto& buffer = *static_cast<const DataNode&>(node).buffer();
    const auto& expression = buffer.host_expression();
    launches = std::max(launches, expression != nullptr ? expression->launches : 0);
    return leaves == Leaves::any || buffer.is_from_cpu() || expression != nullptr;
  };
  return calls_for_cpu(value, kMaxEvaluatedCalls, admits) ? std::make_optional(launches)
                                                          : std::nullopt;
}

BufferPtr evaluate(const Value& value);

// Returns a buffer with the elements, evaluated on the CPU or computed by the program. Returns null
// if a call raises an error on the CPU; the program then raises it. Throws the error of a failed
// program.
BufferPtr evaluate_buffer(const BufferPtr& buffer) {
  const auto& expression = buffer->host_expression();
  if (expression == nullptr) {
    wait_for(buffer);
    return buffer;
  }
  Value value;
  {
    const RecorderLock lock(recorder_mutex());
    if (expression->elements) {
      return expression->elements;
    }
    value = expression->value;
  }
  auto elements = evaluate(value);
  if (elements) {
    const RecorderLock lock(recorder_mutex());
    expression->elements = elements;
    expression->launches = 0;
    expression->value = Value();
  }
  return elements; // `value` is freed here, without the lock
}

BufferPtr evaluate(const Value& value) {
  Graph graph;
  std::vector<Input> inputs;
  {
    const RecorderLock lock(recorder_mutex());
    graph = collect_graph(std::vector<Value>{value});
    inputs = inputs_of(graph);
  }
  for (auto& input : inputs) {
    input.buffer = evaluate_buffer(input.buffer);
    if (!input.buffer) {
      return nullptr;
    }
  }
  try {
    return Buffer::from_cpu(evaluate_graph(graph, inputs)[0]);
  } catch (const std::exception&) {
    return nullptr; // the program raises the error
  }
}

// Returns a tensor's pending value if the CPU can evaluate it, else a null value. Called under the
// recorder's lock.
Value evaluable_value(const Region& region, const PendingTrace& own) {
  if (!region.is_whole || region.variable.trace() != &own) {
    return Value();
  }
  const bool is_long = own.calls.load(std::memory_order_relaxed) >= kMaxPendingCalls;
  const Value& value = region.variable.value();
  return launches_behind(value, is_long ? Leaves::host : Leaves::any) ? value : Value();
}

} // namespace

at::Tensor integers_on_cpu(const at::Tensor& tensor) {
  if (capturing || is_strict() || tensor.numel() == 0 ||
      !c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/true)) {
    return {};
  }
  const Region region = region_of(*tensor.unsafeGetTensorImpl());
  Value value;
  {
    const RecorderLock lock(recorder_mutex());
    value = evaluable_value(region, pending_trace());
  }
  const auto buffer = value.node ? evaluate(value) : nullptr;
  if (!buffer) {
    return {};
  }
  Value old; // freed after the unlock
  {
    const RecorderLock lock(recorder_mutex());
    if (region.variable.value().node == value.node && region.variable.trace() != nullptr) {
      // The next program need not compute it.
      old = region.variable.set_computed(data_value(buffer, type_of(value)));
    }
  }
  return Buffer::as_cpu(
      buffer, tensor.scalar_type(), tensor.sizes(), tensor.strides(), region.offset);
}

void keep_host_expression(const Value& result, const Value& computed) {
  if (!is_small_integer(type_of(result)) || is_strict()) {
    return;
  }
  const auto launches = launches_behind(result, Leaves::host);
  if (launches && *launches < kMaxLaunches) {
    static_cast<const DataNode&>(trace_node(computed))
        .buffer()
        ->set_host_expression(std::make_shared<HostExpression>(result, *launches + 1));
  }
}

} // namespace ftm
