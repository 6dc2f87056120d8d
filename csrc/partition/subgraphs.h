// Partitions a graph into subgraphs that run one after the other, each as its own program.
#pragma once

#include "graph/ordered_graph.h"

namespace ftm {

struct Subgraph {
  Graph graph;
  std::vector<Value> outputs; // buffers of its results, as data nodes
  std::vector<Value> kept; // parameters that are no nodes of the whole graph, owned here
  bool any_size = false; // its sizes will differ next time, so compile for dynamic shapes at once
};

// The producer of a result of the whole graph.
struct ResultLocation {
  size_t subgraph;
  size_t result; // index in the subgraph's results
};

struct PartitionedGraph {
  std::vector<Subgraph> subgraphs; // in launch order
  std::vector<ResultLocation> results; // by result of the whole graph
  std::vector<Value> values; // by result of the whole graph: its buffer, with the result's type
  std::vector<Value> calls; // new nodes in the subgraphs, owned here
};

// Returns a partition with the whole graph as the only subgraph.
PartitionedGraph single_subgraph(Graph graph);

// Cuts a graph before each of these calls, which are in ascending order. A contiguous view of
// another subgraph's result becomes a parameter with an offset, as for any other buffer, so
// subgraphs that differ only in such offsets share a program. A result that has all elements of
// another one with other sizes shares its buffer. Called under the recorder's lock.
PartitionedGraph cut_graph(const Graph& whole, c10::ArrayRef<size_t> positions);

} // namespace ftm
