// Operands of products that stay in the buffer which their load names.
//
// Example: `DLD x[r2], 32@9604 3@98 3@1 | 4@98 96@1, T1` loads the 3x3 windows of an image, one row
// for each tap of a filter. `MM T0, T1, T2` multiplies them. The rows of T1 are runs of 96 adjacent
// elements of x, four in each row. So the product reads them there, with a table of the rows'
// offsets (Indirect in kernels/matrix.h), and each element is not copied nine times.
#pragma once

#include "core_state.h"
#include "matrix_operands.h"

namespace ftm {

// One side of a lent operand: its rows, or its columns.
struct Side {
  CopyDim dims[kMostDims]; // as simplified; `from` is in elements of the buffer
  int count;

  // The distance of neighbors, if it is the same for all.
  bool is_regular() const { return count <= 1; }
  int64_t step() const { return count ? dims[count - 1].from : 1; }
  // The extent of the innermost loop.
  int64_t run() const { return count ? dims[count - 1].extent : 1; }
  // Writes the offset of each element, or of each run if `by_run`, to `offsets`. Returns how many.
  int64_t offsets(int64_t* offsets, bool by_run) const;
};

// An operand in its buffer.
struct DirectOperand {
  const float* data; // only of float32
  Side rows, columns;
  int64_t behind; // elements of the buffer after the last one

  // Whether the range of its elements overlaps the `bytes` at `from`.
  bool touches(int64_t element_bytes, const uint8_t* from, int64_t bytes) const;
  // Whether its rows have the same distance, and adjacent elements.
  bool is_plain() const { return rows.is_regular() && columns.is_regular() && columns.step() == 1; }
};

// Copies the elements of a lent slot, as its load would have done.
void copy_lent(Core& core, Slot& slot, const TileDecl& tile);

// Returns where the elements of a lent slot are.
DirectOperand direct_operand(const Core& core, const Slot& slot, const TileDecl& tile);

// Whether a product may read A, rows of runs along k, where it is; elements are read one by one.
bool is_direct_a(const DirectOperand& a, const Product& p);
// The same for B, rows of runs along n. Whole vectors are read, also behind the end of a run.
bool is_direct_b(const DirectOperand& b, const Product& p, bool trans_a);

// Multiplies run by run. The other operand is in scratchpad. Neither is transposed, except that the
// A of a B with regular rows may be. free: work memory, for tables of offsets.
void multiply_direct_a(const DirectOperand& a, const Operand& b, const Product& p, uint8_t* free);
void multiply_direct_b(
    const Operand& a, bool trans_a, const DirectOperand& b, const Product& p, uint8_t* free);

} // namespace ftm
