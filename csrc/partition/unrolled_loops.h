// Loops that the user's program has unrolled into a trace: cells over the steps of an episode, an
// inner optimizer, terms of a loss; and the layers of a deep network, whose passes and optimizer
// steps are loops as well; and concatenations of what a loop has left.
//
// A trace with a loop is a program as others are, with two exceptions. When a trace comes with the
// same iteration another number of times, that number is data: from there on, traces with this loop
// are cut into a piece for each iteration, or for a few, which are the same few programs for every
// number; one that comes often gets a program of its own then, which runs faster. And a long trace
// is cut so, and stays so, where that leaves at most two fifths of its calls to compile, since most
// of its pieces are one program.
//
// How many values are concatenated is data in the same way: where it varies, a concatenation
// becomes steps of eight values and of two.
//
// Where the order itself is data, stretches that many traces have are the pieces; see
// partition/shared_segments.h.
#pragma once

#include "partition/subgraphs.h"

#include <optional>

namespace ftm {

// A graph without a program, cut into iterations or stretches; nothing: it becomes one program.
// Under the recorder's lock.
std::optional<PiecedGraph> iterations_of(const Graph& graph);

// Forgets which loops there were. Not under the recorder's lock.
void forget_loops();

} // namespace ftm
