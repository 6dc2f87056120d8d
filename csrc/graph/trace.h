// A trace: the program as plain data, with the text that the compiler reads.
#pragma once

#include "graph/ordered_graph.h"

#include <string>
#include <vector>

namespace ftm {

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

Trace make_trace(const Graph& graph);

// The canonical text; see the header comment of the compiler's trace parser for its grammar.
std::string trace_text(const Trace& trace);

} // namespace ftm
