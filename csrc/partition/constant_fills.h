// Calls that fill a tensor with one number: what an optimizer's first step begins its state with.
#pragma once

#include "graph/call_range.h"
#include "partition/subgraphs.h"

namespace ftm {

// The calls of a graph that fill a tensor with one number and were recorded there; none where it
// has no others.
std::vector<size_t> fills_among(const Graph& graph, CallRange recorded);

struct FilledGraph {
  std::vector<Piece> fills; // each a tensor in a row, with any number of elements: one program for
                            // all that agree in number and dtype
  Graph rest; // which reads what they fill as it reads other data; its results are those of the
              // whole graph that are no fills
  std::vector<int64_t>
      fill_of_result; // for each result of the whole graph; -1: the rest computes it
  std::vector<Value> calls; // that the pieces point to, and nobody else holds
};

// The same graph where these calls come first, each a piece of its own. Under the recorder's lock.
FilledGraph fill_first(const Graph& graph, c10::ArrayRef<size_t> fills);

} // namespace ftm
