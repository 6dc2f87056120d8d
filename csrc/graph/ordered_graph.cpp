#include "graph/ordered_graph.h"

#include <algorithm>

namespace ftm {
namespace {

uint32_t walks = 0; // under the recorder's lock

// Returns the calls on which the results depend, unsorted. Iterative, since a graph may be
// thousands of calls deep.
std::vector<const CallNode*> reachable(c10::ArrayRef<torch::lazy::Output> results, uint32_t walk) {
  std::vector<const CallNode*> calls;
  const auto visit = [&](const torch::lazy::Node* pointer) {
    const auto& node = static_cast<const TraceNode&>(*pointer);
    if (!node.is_data && node.walk != walk) {
      node.walk = walk;
      calls.push_back(&static_cast<const CallNode&>(node));
    }
  };
  for (const auto& result : results) {
    visit(result.node);
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    for (const auto& operand : calls[i]->values) {
      visit(operand.node.get());
    }
  }
  return calls;
}

// Assigns value numbers, and parameters to the buffers that are read.
class Numbering {
 public:
  Numbering(Graph& graph, uint32_t walk) : graph_(graph), walk_(walk) {}

  ValueNumber of(const torch::lazy::Node* pointer, size_t index) {
    const auto& node = static_cast<const TraceNode&>(*pointer);
    return node.is_data ? ValueNumber::parameter(parameter(static_cast<const DataNode&>(node)))
                        : ValueNumber::result(node.position + static_cast<int64_t>(index));
  }

 private:
  // Parameters are distinguished by buffer, offset and type: two nodes that agree in these are one
  // parameter.
  int64_t parameter(const DataNode& node) {
    if (node.walk == walk_) {
      return node.position;
    }
    node.walk = walk_;
    auto& buffer = node.buffer()->first_parameter;
    if (buffer.walk != walk_) {
      buffer = {walk_, -1};
    }
    int32_t* last = &buffer.number;
    while (*last >= 0) {
      const auto& other = *graph_.parameters[*last];
      if (other.offset() == node.offset() && other.type(0) == node.type(0)) {
        return node.position = *last;
      }
      last = &next_[*last];
    }
    node.position = *last = static_cast<int32_t>(graph_.parameters.size());
    next_.push_back(-1);
    graph_.parameters.push_back(&node);
    return node.position;
  }

  Graph& graph_;
  uint32_t walk_;
  c10::SmallVector<int32_t, 32> next_; // by parameter: the next one of the same buffer, or -1
};

} // namespace

Hash128 hash_of(const Graph& graph) {
  Hash128 hash;
  size_t next = 0;
  for (const auto* call : graph.calls) {
    hash.add(call->spec().hash.low);
    hash.add(call->spec().hash.high);
    for (size_t i = 0; i < call->values.size(); ++i) {
      hash.add(graph.operands[next++].word());
    }
  }
  hash.add(graph.parameters.size());
  for (const auto* parameter : graph.parameters) {
    const auto& type = parameter->type(0);
    hash.add(static_cast<uint64_t>(type.dtype) << 32 | type.sizes.size());
    for (const int64_t extent : type.sizes) {
      hash.add(static_cast<uint64_t>(extent));
    }
  }
  hash.add(graph.result_numbers.size());
  for (const auto result : graph.result_numbers) {
    hash.add(result.word());
  }
  return hash;
}

Graph collect_graph(c10::ArrayRef<torch::lazy::Output> results) {
  Graph graph;
  const uint32_t walk = ++walks;
  graph.calls = reachable(results, walk);
  std::sort(graph.calls.begin(), graph.calls.end(), [](const CallNode* a, const CallNode* b) {
    return a->sequence < b->sequence;
  });
  Numbering numbering(graph, walk);
  int32_t position = 0;
  for (const auto* call : graph.calls) {
    for (const auto& operand : call->values) {
      graph.operands.push_back(numbering.of(operand.node.get(), operand.index));
    }
    graph.scalars.insert(graph.scalars.end(), call->scalars.begin(), call->scalars.end());
    call->position = position;
    position += static_cast<int32_t>(call->spec().results.size());
  }
  for (const auto& result : results) {
    graph.result_numbers.push_back(numbering.of(result.node, result.index));
  }
  graph.hash = hash_of(graph);
  return graph;
}

Graph collect_graph(const std::vector<Value>& results) {
  std::vector<torch::lazy::Output> outputs;
  outputs.reserve(results.size());
  for (const auto& result : results) {
    outputs.emplace_back(result.node.get(), result.index);
  }
  Graph graph = collect_graph(outputs);
  graph.results = results;
  return graph;
}

std::vector<Input> inputs_of(const Graph& graph) {
  std::vector<Input> inputs;
  inputs.reserve(graph.parameters.size());
  for (const auto* leaf : graph.parameters) {
    inputs.emplace_back(
        leaf->buffer(),
        leaf->offset() * static_cast<int64_t>(c10::elementSize(leaf->type(0).dtype)));
  }
  return inputs;
}

} // namespace ftm
