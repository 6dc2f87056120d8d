// Loops in a graph, and where they are cut into iterations.
#pragma once

#include "graph/ordered_graph.h"
#include "graph/repeat_finder.h"

namespace ftm {

// For each call a number that calls share which do the same in two iterations: all but which window
// they read or write.
std::vector<uint64_t> likenesses(const Graph& graph);

// One number for an iteration, wherever it is said to begin.
uint64_t iteration_key(c10::ArrayRef<uint64_t> iteration);

// The calls before which a graph with these loops is cut: into the first iteration of each, a few
// at a time, and the last, begun where the least is held. alike: likenesses(graph).
std::vector<size_t> cuts_of(
    const Graph& graph, c10::ArrayRef<Loop> loops, c10::ArrayRef<uint64_t> alike);

} // namespace ftm
