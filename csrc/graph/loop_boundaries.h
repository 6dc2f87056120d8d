// Where a graph's loops are cut into iterations.
#pragma once

#include "graph/ordered_graph.h"
#include "graph/repeat_finder.h"

namespace ftm {

// Returns one number for each call. Calls that do the same in two iterations share it: they agree
// in everything but the offset of the view that they read or write.
std::vector<uint64_t> loop_signatures(const Graph& graph);

// Returns a hash of an iteration's calls that does not depend on which of them is the first.
uint64_t iteration_key(c10::ArrayRef<uint64_t> iteration);

// Returns the calls before which to cut a graph with these loops: the first iteration of each, then
// segments of a few iterations, then the last iteration. Iterations begin where the fewest results
// are live.
std::vector<size_t> loop_cuts(const Graph& graph, c10::ArrayRef<Loop> loops);

} // namespace ftm
