// Stretches of a graph that its own operations bound: two graphs that have some of their operations
// in common, in the same order, are bounded at the same places there, whatever stands before and
// behind.
#pragma once

#include "graph/ordered_graph.h"

#include <vector>

namespace ftm {

struct Stretch {
  size_t begin; // the number of its first call
  size_t calls; // windows, which only say where something lies, do not count
  uint64_t key; // of its operations, in order
};

// All of a graph, in order, of some five operations each, on average. Windows stand before what
// reads them: none ends a stretch but the last. Takes time linear in the number of calls.
std::vector<Stretch> stretches_of(const Graph& graph);

} // namespace ftm
