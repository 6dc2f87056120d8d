// Concatenations of values of one type: `cat` and `stack`, often of as many tensors as a loop of
// the user's program has left.
#pragma once

#include "graph/ordered_graph.h"

namespace ftm {

// The calls of a graph that concatenate values of one type, in order.
std::vector<size_t> concatenations_of(const Graph& graph);

// A hash of the graph's operations, in which neither sizes nor views nor how many values are
// concatenated count.
uint64_t kind_of_graph(const Graph& graph);

// A hash of such a call, in which it does not count how many values are concatenated.
uint64_t kind_of_concatenation(const CallNode& call);

struct GraphInSteps {
  Graph graph;
  std::vector<Value> calls; // that are this graph's own
  std::vector<size_t> cuts; // places in it, in rising order
};

// The same graph where these calls concatenate step by step, eight values or two, cut before and
// behind each step, and at `cuts`, which are places in the old one: so a few programs concatenate
// any number of values. Under the recorder's lock.
GraphInSteps concatenate_in_steps(
    const Graph& graph, c10::ArrayRef<size_t> concatenations, c10::ArrayRef<size_t> cuts);

} // namespace ftm
