// Decides which integers of a trace become symbols the first time that it is compiled: those that
// will probably differ when the same operations are recorded again.
//
// Example: a step of text generation reads a cache of n rows, which a dynamic-shape program
// computed, and appends a row. So n is a symbol, and the step's program serves each later step.
#pragma once

#include "graph/symbolic_sizes.h"
#include "graph/trace.h"
#include "memory/buffer.h"

#include <cstdint>
#include <vector>

namespace ftm {

struct SymbolChoice {
  // Tensors that the trace creates, and integers from the CPU, keep their sizes.
  bool trains = false;
  // Each size of a parameter varies, and may be 1. Equal sizes stay equal: values of one type are
  // concatenated.
  bool any_size = false;
};

// Chooses the symbols of a trace with these inputs. They are:
// - sizes that are symbols in the program that computed an input;
// - extents in which several parts of a computed value differ, such as the tokens of experts;
// - unless the trace trains: sizes of integers and masks, sizes of tensors that the trace fills,
//   the rows of a cache to which it appends, and offsets at which it writes.
// Of a view of a larger value, the strides are products of that value's extents, so they are
// symbolic with these. The result is empty if there would be more than 32 symbols.
SymbolicSizes choose_symbols(
    const Trace& trace, const std::vector<Input>& inputs, SymbolChoice choice);

} // namespace ftm
