// A graph cut into pieces that run one after the other, each a program of its own.
#pragma once

#include "graph/ordered_graph.h"

namespace ftm {

struct Piece {
  Graph graph;
  std::vector<Value> outputs; // where its results will be: data nodes of new buffers
  std::vector<Value> kept; // parameters that are no nodes of the whole graph
  bool any_size = false; // it will come with others: its program is general at first sight
};

// A result of the whole graph: the piece that makes it, and which of that piece's results it is.
struct Made {
  size_t piece;
  size_t result;
};

struct PiecedGraph {
  std::vector<Piece> pieces;
  std::vector<Made> results; // for each result of the whole graph
  std::vector<Value> values; // for each of these where it will be: the piece's output, or all of it
                             // with other sizes
  std::vector<Value> calls; // that the pieces point to, and nobody else holds
};

// The whole graph as the only piece.
PiecedGraph one_piece(Graph graph);

// Cut before each of these calls, which are in rising order. What a piece reads of another one's
// results through a window that lies in a row is a parameter of its own, as it is of any other
// buffer: so pieces that differ in windows alone are one program. A result that is all of another
// one with other sizes is no call of a piece either, but the other one's buffer. Under the
// recorder's lock.
PiecedGraph cut_graph(const Graph& whole, c10::ArrayRef<size_t> positions);

} // namespace ftm
