// Repetition in a sequence of calls: the loop of the user's program that records them.
#pragma once

#include <c10/util/ArrayRef.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

namespace ftm {

// A recorded call as a loop sees it: one iteration's calls may differ from another's in sizes and
// constants.
struct LoggedCall {
  uint32_t signature; // of op and result dtype
  uint32_t pending; // variables that were pending before it: what a cut here would have to keep
};

// A hash of a sequence of signatures, extended call by call: a polynomial, so that the oldest call
// can be taken away.
constexpr uint64_t kSequenceBase = 0x9e3779b97f4a7c15ULL;
inline uint64_t extended(uint64_t hash, LoggedCall call) {
  return hash * kSequenceBase + call.signature;
}
uint64_t sequence_hash(c10::ArrayRef<LoggedCall> calls);

// Where in a loop to cut: before the call at `position`, which may be recorded later, or is the
// end; and how many calls one iteration is.
struct LoopCut {
  size_t position;
  size_t period;
};

// The loop in which these calls end, if it makes up three quarters of them and two whole iterations
// are there. Of nested loops it is the outermost that fits: the one that explains most calls. It is
// cut where an iteration's calls, beginning there, are one of `known` (their sequence_hash), so
// that a loop that is met again is cut at the same place; else where the least is pending. Takes
// time linear in the number of calls.
std::optional<LoopCut> find_loop(
    c10::ArrayRef<LoggedCall> calls, const std::unordered_set<uint64_t>& known);

// A stretch of a sequence in which each element equals the one `period` before it.
struct Loop {
  size_t begin;
  size_t period;
  size_t length; // not always a multiple of the period

  size_t count() const { return length / period; }
};

// Stretches of at least three periods, in order, none in another; of those that begin at one place
// the longest. Takes time linear in the length of the sequence.
std::vector<Loop> find_loops(c10::ArrayRef<uint64_t> sequence);

} // namespace ftm
