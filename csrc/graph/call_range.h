// A contiguous range of recorded calls.
#pragma once

#include <cstdint>

namespace ftm {

// Half-open range [begin, end) of CallNode::sequence numbers.
struct CallRange {
  uint64_t begin = 0, end = 0;

  bool contains(uint64_t sequence) const { return sequence >= begin && sequence < end; }
};

} // namespace ftm
