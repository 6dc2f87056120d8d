// Traces whose order of operations is data: the nodes of a parse tree, the turns of a game,
// sentences with words that are fed or guessed. Each is another trace, but made of stretches that
// all of them have.
#pragma once

#include "graph/ordered_graph.h"

#include <vector>

namespace ftm {

// Where to cut a graph without a program into stretches that came in several other graphs; nowhere:
// most of it did not. A graph that was cut is so whenever it comes again. has_loops: with loops
// that vary, whose number of iterations makes no other graph. Under the recorder's lock.
std::vector<size_t> cuts_of_arrangement(const Graph& graph, bool has_loops);

// Under the recorder's lock.
void forget_arrangements();

} // namespace ftm
