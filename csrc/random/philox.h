// Random numbers are a function of (seed, offset, element index). The generator returns offsets;
// programs compute the numbers.
#pragma once

#include <cstdint>

namespace ftm {

// The key and the counter's high half of one call that draws.
struct RandomDraw {
  uint64_t seed;
  uint64_t offset;
};

// Word `index % 4` of Philox4x32-10 for counter (index / 4, offset) and key `seed`.
uint32_t philox_word(uint64_t index, uint64_t seed, uint64_t offset);

} // namespace ftm
