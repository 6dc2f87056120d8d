// A stretch of all calls that were recorded.
#pragma once

#include <cstdint>

namespace ftm {

// The recorded calls from `begin` on, and before `end`, as CallNode::sequence counts them.
struct CallRange {
  uint64_t begin = 0, end = 0;

  bool contains(uint64_t sequence) const { return sequence >= begin && sequence < end; }
};

} // namespace ftm
