// Finds repetition in a sequence of calls: the loops of the user's program that recorded them.
#pragma once

#include <c10/util/ArrayRef.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

namespace ftm {

// A recorded call, without the sizes and constants that may differ between iterations.
struct LoggedCall {
  uint32_t signature; // of op and result dtype
  uint32_t pending; // variables whose values were pending before it: the results that a cut here
                    // must store
};

// Polynomial hash of a sequence of signatures. It is extended call by call, and the oldest call can
// be subtracted.
constexpr uint64_t kSequenceBase = 0x9e3779b97f4a7c15ULL;
inline uint64_t extended(uint64_t hash, LoggedCall call) {
  return hash * kSequenceBase + call.signature;
}
// Returns the hash of a whole sequence.
uint64_t sequence_hash(c10::ArrayRef<LoggedCall> calls);

// Where to cut a loop: before the call at `position` (which may be the end, or not recorded yet).
// `period` is the number of calls of an iteration.
struct LoopCut {
  size_t position;
  size_t period;
};

// Returns where to cut the loop in which the calls end, or nullopt if there is none. The loop must
// have two whole iterations and cover three quarters of the calls. Of nested loops, the one that
// covers most calls is chosen, which is the outermost. It is cut where the iteration that begins
// there is one of `known_iterations` (by sequence_hash), so that a loop is cut at the same call
// each time. If there is none, it is cut where the fewest values are pending. Takes linear time.
std::optional<LoopCut> find_loop(
    c10::ArrayRef<LoggedCall> calls, const std::unordered_set<uint64_t>& known_iterations);

// A range of a sequence in which each element equals the one `period` before it.
struct Loop {
  size_t begin;
  size_t period;
  size_t length; // not always a multiple of `period`

  size_t count() const { return length / period; }
};

// Returns the loops of at least three iterations, in order and disjoint; of those that begin at one
// position, the longest. Takes linear time.
std::vector<Loop> find_loops(c10::ArrayRef<uint64_t> sequence);

} // namespace ftm
