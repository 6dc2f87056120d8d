// Operands of a product, and work memory for copies of them.
#pragma once

#include "types.h"

namespace ftm {

// Returns a tile's rows x columns elements in the product's type. stride: set to the distance of
// its rows.
struct Operand {
  const uint8_t* data;
  int64_t rows, columns, stride;
  Type type;
};

// Takes `bytes` of the core's work memory, which holds all copies of one product.
inline uint8_t* take(uint8_t*& free, int64_t bytes) {
  uint8_t* start = free;
  free += (bytes + kSlack + 63) / 64 * 64;
  return start;
}

// The slots of a product, its extents, and where C is.
struct Product {
  int32_t a_number, b_number, c_number;
  int64_t m, n, k;
  bool acc;
  uint8_t* c = nullptr; // in scratchpad, or in the buffer of the DST that follows
  int64_t ldc = 0; // distance of its rows in elements
};

} // namespace ftm
