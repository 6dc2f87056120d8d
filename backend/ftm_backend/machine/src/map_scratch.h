// Scratch memory of a core's maps, kept between maps so that small maps need not allocate.
#pragma once

#include <algorithm>
#include <vector>

#include "core_state.h"

namespace ftm {

// A tile that a map reads or writes.
struct MapOperand {
  uint8_t* base;
  int64_t row_bytes; // distance of rows
  int64_t bytes; // of an element
  Slot* slot;
  int64_t rows, columns;

  // Whether two operands may share bytes.
  bool touches(const MapOperand& other) const {
    return start() < other.end() && other.start() < end();
  }
  const uint8_t* start() const { return base + std::min<int64_t>(0, row_bytes * (rows - 1)); }
  const uint8_t* end() const {
    return base + std::max<int64_t>(0, row_bytes * (rows - 1)) + columns * bytes;
  }
};

struct MapScratch {
  std::vector<MapOperand> inputs, outputs;
  std::vector<uint64_t> cells;
  std::vector<uint8_t*> strips, splats, input_pointers, output_pointers, cell_pointers;
  std::vector<int64_t> input_steps, output_steps;
  std::vector<Accumulator> row_sums;
  std::vector<Accumulator*> sums;
  std::vector<uint8_t> snapshots;
};

} // namespace ftm
