// Single flight: threads that train models of one kind need the same programs at the same time. One
// of them builds each program; the others wait.
#pragma once

#include "graph/structural_hash.h"

namespace ftm {

// For its lifetime, no other thread builds the program with this hash.
class SingleFlight {
 public:
  // Waits until no other thread builds the program. Releases the GIL meanwhile. Throws the
  // exception of a signal handler. Must not be called under the recorder's lock.
  explicit SingleFlight(const Hash128& hash);
  ~SingleFlight();
  SingleFlight(const SingleFlight&) = delete;
  SingleFlight& operator=(const SingleFlight&) = delete;

 private:
  Hash128 hash_;
};

} // namespace ftm
