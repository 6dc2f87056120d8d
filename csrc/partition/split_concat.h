// Concatenations (`cat`, `stack`) of values of one type, often as many as the iterations of a loop
// in the user's program.
#pragma once

#include "graph/ordered_graph.h"

namespace ftm {

// Returns the graph's calls that concatenate values of one type, by index.
std::vector<size_t> find_concats(const Graph& graph);

// Returns a hash of the graph's operations. Sizes, views, and the number of concatenated values do
// not count.
uint64_t operations_key(const Graph& graph);

// Returns a hash of a concatenation. The number of values does not count.
uint64_t concat_key(const CallNode& call);

// A graph in which concatenations are split into small ones.
struct SplitConcats {
  Graph graph;
  std::vector<Value> calls; // the new calls' nodes, which are owned here
  std::vector<size_t> cuts; // calls before which to cut the graph, in ascending order
};

// Replaces these concatenations by calls that concatenate 64, 16, 4 or 2 values of one type, or two
// of different sizes, with a cut before and after each. So five programs concatenate any number of
// values, with at most 7 launches for less than 256. `cuts` are further cuts, by index in the old
// graph. Called under the recorder's lock.
SplitConcats split_concats(
    const Graph& graph, c10::ArrayRef<size_t> concatenations, c10::ArrayRef<size_t> cuts);

} // namespace ftm
