// The pending graph in the order of the trace: what a program computes, without its text.
#pragma once

#include "graph/node.h"
#include "graph/value_number.h"

#include <unordered_map>
#include <vector>

namespace ftm {

// Under the recorder's lock, as long as it points into the graph.
struct Graph {
  std::vector<const DataNode*>
      parameters; // in order of first use; each (buffer, type, offset) once
  std::vector<const CallNode*> calls; // in recording order, only what the results need
  std::vector<Value> results; // each value once

  std::vector<ValueNumber> operands; // of all calls, in order
  std::vector<ValueNumber> result_numbers;
  std::vector<uint64_t> scalars; // of all calls, in order
  Hash128 hash; // of all of the above but the scalars' values
};

Graph collect_graph(const std::vector<Value>& results);

// The hash of a graph that has all else.
Hash128 hash_of(const Graph& graph);

} // namespace ftm
