// Arguments of a translated function.
#pragma once

#include <cstdint>

namespace ftm::native {

constexpr int kPlaces = 6; // values of Place
constexpr int kSumLanes = 16; // float32 lanes of a reduction
constexpr int kMostSums = 3; // reductions that a function keeps in registers

struct Frame {
  uint8_t* const* tables[kPlaces] = {}; // the addresses of spots by Place, then by index
  const int64_t* steps[kPlaces] = {}; // bytes to the next row, of inputs and outputs
  int64_t columns = 0; // elements of a row
  int64_t rows = 0; // at least 1; the function counts down to 0
  float* lanes = nullptr; // kSumLanes partial results of each reduction of each row
};

} // namespace ftm::native
