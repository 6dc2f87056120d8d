// The pending graph in recording order: the computation of a program, without its text.
#pragma once

#include "graph/node.h"
#include "graph/value_id.h"

#include <unordered_map>
#include <vector>

namespace ftm {

// Its nodes must stay alive. Guarded by the recorder's lock while the pending graph can change.
struct Graph {
  std::vector<const DataNode*> parameters; // in order of first use, without duplicates
  std::vector<const CallNode*> calls; // in recording order; only those on which the results depend
  std::vector<Value> results; // without duplicates

  std::vector<ValueNumber> operands; // of all calls, in order
  std::vector<ValueNumber> result_numbers; // of `results`
  std::vector<uint64_t> scalars; // of all calls, in order
  Hash128 hash; // of everything but the scalars' values
};

// Collects the calls on which `results` depend. Call it under the recorder's lock.
Graph collect_graph(const std::vector<Value>& results);
// Does the same for results that the caller owns otherwise, and leaves `Graph::results` empty.
Graph collect_graph(c10::ArrayRef<torch::lazy::Output> results);

// Returns the elements of the parameters, in their order. Call it under the recorder's lock.
std::vector<Input> inputs_of(const Graph& graph);

// Computes the hash of a graph from its other fields.
Hash128 hash_of(const Graph& graph);

} // namespace ftm
