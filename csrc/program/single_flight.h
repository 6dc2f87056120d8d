// Threads that train models of one kind need the same programs at the same time: one of them builds
// each.
#pragma once

#include "graph/structural_hash.h"

namespace ftm {

// While it lives, no other thread builds the program of this hash.
class SingleFlight {
 public:
  // Waits for its turn, without the GIL. Throws what a signal's handler raises meanwhile. Not under
  // the recorder's lock.
  explicit SingleFlight(const Hash128& hash);
  ~SingleFlight();
  SingleFlight(const SingleFlight&) = delete;
  SingleFlight& operator=(const SingleFlight&) = delete;

 private:
  Hash128 hash_;
};

} // namespace ftm
