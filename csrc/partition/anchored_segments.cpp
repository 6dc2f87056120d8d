#include "partition/anchored_segments.h"

#include <deque>

namespace ftm {
namespace {

constexpr size_t kReach =
    2; // a boundary has the least rank of the operations at most this far from it

// Returns a hash of each operation and the one before it.
std::vector<uint64_t> pair_hashes(c10::ArrayRef<uint64_t> operations) {
  std::vector<uint64_t> ranks(operations.size());
  for (size_t i = 1; i < operations.size(); ++i) {
    ranks[i] = hash_words(operations.data() + i - 1, 2);
  }
  return ranks;
}

// Returns the operations with the least rank among all within kReach, at least kReach apart from
// each other and from the ends. (Content-defined chunking: boundaries depend only on nearby
// operations.)
std::vector<size_t> find_boundaries(c10::ArrayRef<uint64_t> operations) {
  const auto ranks = pair_hashes(operations);
  std::vector<size_t> boundaries;
  std::deque<size_t> rising; // sliding window minimum: each rank is the least of those after it
  for (size_t ahead = 1; ahead < operations.size() + kReach; ++ahead) {
    if (ahead < operations.size()) {
      while (!rising.empty() && ranks[rising.back()] > ranks[ahead]) {
        rising.pop_back();
      }
      rising.push_back(ahead);
    }
    if (ahead <= kReach) {
      continue;
    }
    const size_t i = ahead - kReach;
    while (rising.front() + kReach < i) {
      rising.pop_front();
    }
    const size_t last = boundaries.empty() ? 0 : boundaries.back();
    if (ranks[i] == ranks[rising.front()] && i >= last + kReach &&
        i + kReach <= operations.size()) {
      boundaries.push_back(i);
    }
  }
  return boundaries;
}

} // namespace

std::vector<CallSegment> find_segments(const Graph& graph) {
  std::vector<uint64_t> operations;
  std::vector<size_t> ends; // of each operation
  for (size_t i = 0; i < graph.calls.size(); ++i) {
    if (const auto signature = graph.calls[i]->spec().signature; signature != 0) {
      operations.push_back(signature);
      ends.push_back(i + 1);
    }
  }
  auto boundaries = find_boundaries(operations);
  boundaries.push_back(operations.size());
  std::vector<CallSegment> found;
  size_t first = 0;
  for (const size_t next : boundaries) {
    if (next > first) {
      found.push_back(
          {first == 0 ? 0 : ends[first - 1], next - first,
           hash_words(operations.data() + first, next - first)});
    }
    first = next;
  }
  return found;
}

} // namespace ftm
