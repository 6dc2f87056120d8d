// Splits a graph into segments at boundaries that depend only on nearby operations. So two graphs
// that have a sequence of operations in common are split at the same operations within it, whatever
// precedes and follows.
#pragma once

#include "graph/ordered_graph.h"

#include <vector>

namespace ftm {

struct CallSegment {
  size_t begin; // index of its first call
  size_t calls; // number of calls, without views
  uint64_t key; // hash of its operations, in order
};

// Returns all segments of a graph, in order, of five operations on average. A view belongs to the
// segment of its reader, so a segment ends with a view only at the end of the graph. Takes linear
// time.
std::vector<CallSegment> find_segments(const Graph& graph);

} // namespace ftm
