// Reorders a graph's calls so that its loops become visible.
//
// An optimizer's step is recorded op by op, each over all parameters, while the part that repeats
// from layer to layer is the whole step of one parameter. The new order puts it after the call
// that produces the parameter's gradient. So the backward pass of a layer and the steps of its
// parameters become one sequence of calls, repeated once per layer.
#pragma once

#include "graph/ordered_graph.h"

namespace ftm {

// Returns the same graph (with the same hash) in another order. An elementwise call, or one without
// operands, moves directly after the last other call on which it depends; if it depends on none,
// directly before the first call that depends on it. It stays in place if that is at most 8 calls
// away. Takes time O(n log n). Called under the recorder's lock.
Graph reorder_for_loops(const Graph& graph);

} // namespace ftm
