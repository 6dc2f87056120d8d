// An order of a graph's calls in which its loops show.
//
// An optimizer's step is recorded operation by operation over all parameters, while what repeats
// from layer to layer is a parameter's whole step. In this order it stands behind the call that
// made the parameter's gradient, so that the backward pass of a layer and the steps of its
// parameters are one stretch of calls, as often as there are layers.
#pragma once

#include "graph/ordered_graph.h"

namespace ftm {

// The same graph, with its hash, in this order: what computes element by element, or makes data of
// nothing, comes directly behind the last other call that it waits for, chain by chain, and what
// waits for none directly before the first call that waits for it; but where that is only a few
// calls away, in its old place. Takes time in proportion to n log n. Under the recorder's lock.
Graph in_order_of_loops(const Graph& graph);

} // namespace ftm
