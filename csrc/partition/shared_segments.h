// Cuts traces whose order of operations depends on data: the nodes of a parse tree, the moves of a
// game, a sentence in which each word is either given or predicted. Each trace is different, but
// they consist of common segments, which become programs.
#pragma once

#include "graph/ordered_graph.h"

#include <vector>

namespace ftm {

// Returns the calls before which to cut a graph that has no program: at the boundaries of all
// segments, if three quarters of its operations are in segments that several other graphs had;
// otherwise none. The decision for a graph is remembered. `has_loops`: it has loops that vary,
// whose number of iterations does not count as a difference between graphs. Called under the
// recorder's lock.
std::vector<size_t> shared_segment_cuts(const Graph& graph, bool has_loops);

} // namespace ftm
