// Loops that the user's program has unrolled into a trace: cells over the steps of an episode, an inner optimizer, terms of a loss.
//
// A trace with a loop is a program as others are. When a trace comes with the same iteration another number of times, that number
// is data: from there on, traces with this loop are cut into a piece for each iteration, or for a few, which are the same few
// programs for every number. A trace that comes often gets a program of its own then, which runs faster.
#pragma once

#include "graph/graph.h"

#include <vector>

namespace ftm {

// The calls before which a graph without a program is cut; none: it becomes one program. Under the recorder's lock.
std::vector<size_t> iterations_of(const Graph& graph);

// Forgets which loops there were. Not under the recorder's lock.
void forget_loops();

} // namespace ftm
