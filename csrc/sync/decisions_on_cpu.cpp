#include "sync/decisions_on_cpu.h"

#include "graph/ordered_graph.h"
#include "support/capture_mode.h"
#include "support/strict_mode.h"
#include "execute/calls_for_cpu.h"
#include "execute/launcher.h"
#include "partition/plan_launch.h"
#include "reference/executor.h"
#include "tensor/tensor_access.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace ftm {
namespace {

// Launching a program that is in memory takes about 10 us, a small op on the CPU about 3 us.
constexpr size_t kFewCalls = 4; // which the CPU computes in less time than a launch takes

// Compiling a program takes milliseconds. Each decision of a loop may need another one.
constexpr int kMaxLaunched = 2; // other decisions in a row on the device; occasional ones stay
constexpr size_t kDecisionCalls = 64; // for one decision
constexpr int64_t kDecisionElements = 1 << 12; // of each value that they compute
constexpr int64_t kMaxInputElements = 1 << 16; // of each value that they read

// Whether the CPU may read a value, or compute all results of its call.
bool is_small(const Value& value) {
  const auto& node = trace_node(value);
  if (node.is_data) {
    return type_of(value).numel() <= kMaxInputElements;
  }
  const auto& results = static_cast<const CallNode&>(node).spec().results;
  return std::all_of(results.begin(), results.end(), [](const ResultType& result) {
    return result.type.numel() <= kDecisionElements;
  });
}

// Whether a leaf is a tensor of one number that came from the CPU, and no element of a larger one.
bool is_number_from_cpu(const DataNode& leaf) {
  const auto& buffer = *leaf.buffer();
  return buffer.is_from_cpu() && buffer.nbytes() == c10::elementSize(leaf.type(0).dtype);
}

// Whether calls compute with such numbers only. Example: a count of boxes that is divided by the
// number of processes.
bool are_on_numbers(c10::ArrayRef<const CallNode*> calls) {
  const auto is_number = [](const Value& operand) {
    const auto& node = trace_node(operand);
    return type_of(operand).numel() == 1 &&
           (!node.is_data || is_number_from_cpu(static_cast<const DataNode&>(node)));
  };
  return std::all_of(calls.begin(), calls.end(), [&](const CallNode* call) {
    return std::all_of(call->values.begin(), call->values.end(), is_number);
  });
}

// Whether the CPU makes a decision that depends on these calls, or the device.
bool is_for_cpu(c10::ArrayRef<const CallNode*> calls, at::ScalarType dtype, PendingTrace& own) {
  const bool is_short = calls.size() <= kFewCalls;
  if (is_short && (dtype == at::kBool || are_on_numbers(calls))) {
    return true;
  }
  return at::isIntegralType(dtype, /*includeBool=*/true) && ++own.decisions > kMaxLaunched &&
         (is_short || !find_pending_program(own));
}

struct ByNode {
  size_t operator()(const Value& value) const {
    return std::hash<const void*>()(value.node.get()) + value.index;
  }
  bool operator()(const Value& a, const Value& b) const {
    return a.node == b.node && a.index == b.index;
  }
};

// The computation of a decision. Its results are the decision and the values of live tensors on
// which it depends. These tensors get their values too, so that the next decision depends only on
// later calls and uses the same numbers.
struct Work {
  Graph graph;
  std::vector<Input> inputs;
};

Work work_for(
    const Value& decision, c10::ArrayRef<const CallNode*> calls, const PendingTrace& own) {
  const std::unordered_set<const torch::lazy::Node*> needed(calls.begin(), calls.end());
  std::unordered_set<Value, ByNode, ByNode> added = {decision};
  std::vector<Value> results = {decision};
  for (const auto* variable = own.first; variable != nullptr; variable = variable->next) {
    const Value& value = variable->ir_value;
    if (needed.count(value.node.get()) != 0 && added.insert(value).second) {
      results.push_back(value);
    }
  }
  Work work;
  work.graph = collect_graph(results);
  work.inputs = inputs_of(work.graph);
  return work;
}

// Sets the computed values of tensors that were not written meanwhile. Returns the old values,
// which the caller frees without the lock.
std::vector<Value> set_all_computed(
    const Work& work, c10::ArrayRef<BufferPtr> buffers, const PendingTrace& own) {
  std::unordered_map<Value, BufferPtr, ByNode, ByNode> computed;
  for (size_t i = 0; i < buffers.size(); ++i) {
    computed.emplace(work.graph.results[i], buffers[i]);
  }
  std::vector<Value> old; // the caller frees them without the lock
  const RecorderLock lock(recorder_mutex());
  for (auto* variable = own.first; variable != nullptr;) {
    auto* const next = variable->next;
    const auto found = computed.find(variable->ir_value);
    if (found != computed.end()) {
      old.push_back(set_computed(*variable, data_value(found->second, type_of(found->first))));
    }
    variable = next;
  }
  return old;
}

} // namespace

at::Tensor decided_on_cpu(const at::Tensor& tensor) {
  if (capturing || is_strict() || tensor.numel() == 0 || tensor.is_conj() || tensor.is_neg()) {
    return {};
  }
  auto& own = pending_trace();
  Work work;
  Region region = [&] {
    const RecorderLock lock(recorder_mutex());
    const Region found = region_of(*tensor.unsafeGetTensorImpl());
    const Value& value = found.variable.value();
    if (found.is_whole && found.variable.trace() == &own) {
      const auto calls = calls_for_cpu(value, kDecisionCalls, is_small);
      if (calls && !calls->empty() && is_for_cpu(*calls, tensor.scalar_type(), own)) {
        work = work_for(value, *calls, own);
      }
    }
    return found;
  }();
  if (work.graph.results.empty()) {
    return {};
  }
  for (const auto& input : work.inputs) {
    wait_for(input.buffer);
  }
  std::vector<BufferPtr> buffers;
  try {
    for (const at::Tensor& result : evaluate_graph(work.graph, work.inputs)) {
      buffers.push_back(Buffer::from_cpu(result));
    }
  } catch (const std::exception&) {
    return {}; // the program raises the error
  }
  const auto old = set_all_computed(work, buffers, own);
  return Buffer::as_cpu(
      buffers[0], tensor.scalar_type(), tensor.sizes(), tensor.strides(), region.offset);
}

} // namespace ftm
