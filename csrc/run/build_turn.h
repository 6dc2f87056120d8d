// Threads that train models of one kind need the same programs at the same time: one of them builds each.
#pragma once

#include "graph/hash.h"

namespace ftm {

// While it lives, no other thread builds the program of this hash.
class BuildTurn {
 public:
  // Waits for its turn, without the GIL. Throws what a signal's handler raises meanwhile. Not under the recorder's lock.
  explicit BuildTurn(const Hash128& hash);
  ~BuildTurn();
  BuildTurn(const BuildTurn&) = delete;
  BuildTurn& operator=(const BuildTurn&) = delete;

 private:
  Hash128 hash_;
};

} // namespace ftm
