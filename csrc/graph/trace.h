// A trace: a graph as plain data without nodes.
#pragma once

#include "graph/ordered_graph.h"

#include <vector>

namespace ftm {

// A program's computation. Owns its data, so it may be used without the recorder's lock.
struct Trace {
  struct Call {
    CallSpecPtr spec;
    std::vector<ValueNumber> operands;
  };

  std::vector<ValueType> parameters;
  std::vector<Call> calls;
  std::vector<ValueNumber> results;
  std::vector<ValueType> result_types;
};

// Copies a graph. Call it under the recorder's lock.
Trace make_trace(const Graph& graph);

// Whether two traces are the same program.
bool operator==(const Trace& a, const Trace& b);

} // namespace ftm
