// Calls that fill a tensor with one number, and that only the first step of a training makes: those
// that initialize an optimizer's state, or memory that the program did not initialize.
#pragma once

#include "graph/call_range.h"
#include "partition/subgraphs.h"

namespace ftm {

// Calls that become programs of their own if they fill a tensor with one number.
struct FillCalls {
  CallRange step; // recorded during an optimizer's step
  std::vector<uint64_t> initial; // see VariableData::initial_fill; ascending

  bool contains(uint64_t sequence) const;
};

// Returns the graph's calls in `among` that fill a tensor with one number, by index. Returns none
// if the graph has only such calls.
std::vector<size_t> find_constant_fills(const Graph& graph, const FillCalls& among);

// A graph with its constant fills moved into their own programs.
struct SplitFills {
  // Each fills a one-dimensional tensor of any size: one program per number and dtype.
  std::vector<Subgraph> fills;
  Graph remaining; // the other calls, which read the filled tensors as parameters
  std::vector<int64_t> fill_of_result; // by result of the old graph; -1: a result of `remaining`
  std::vector<Value> calls; // nodes of the fills, which are owned here
};

// Moves these calls out of a graph. Called under the recorder's lock.
SplitFills split_constant_fills(const Graph& graph, c10::ArrayRef<size_t> fills);

} // namespace ftm
