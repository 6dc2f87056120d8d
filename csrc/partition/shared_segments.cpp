#include "partition/shared_segments.h"

#include "partition/split_concat.h"
#include "partition/anchored_segments.h"
#include "graph/recorder_lock.h"
#include "support/runtime.h"

#include <unordered_map>
#include <unordered_set>

namespace ftm {
namespace {

constexpr size_t kMinOperations = 24; // of a graph that is worth several programs
// A segment is familiar if this many other graphs had it. A training step, its first step and an
// evaluation are too few.
constexpr int kFamiliar = 3;
constexpr size_t kMaxEntries = 16384; // segments and graphs

struct SegmentHistory { // guarded by the recorder's lock
  std::unordered_map<uint64_t, int> segments; // number of different graphs that had each segment
  std::unordered_map<uint64_t, bool> graphs; // whether each graph is cut

  void clear() {
    segments.clear();
    graphs.clear();
  }
  void reset() {
    const RecorderLock lock(recorder_mutex());
    clear();
  }
};

// Returns a graph's key. With loops that vary, graphs that have the same segments any number of
// times share a key.
uint64_t graph_key(const Graph& graph, const std::unordered_set<uint64_t>& keys, bool has_loops) {
  if (!has_loops) {
    return operations_key(graph);
  }
  uint64_t kind = 0;
  for (const uint64_t key : keys) {
    kind += hash_words(&key, 1);
  }
  return kind;
}

} // namespace

std::vector<size_t> shared_segment_cuts(const Graph& graph, bool has_loops) {
  const auto segments = find_segments(graph);
  std::unordered_set<uint64_t> keys;
  size_t operations = 0, familiar = 0;
  auto& k = part<SegmentHistory>();
  for (const auto& segment : segments) {
    keys.insert(segment.key);
    operations += segment.calls;
    const auto seen = k.segments.find(segment.key);
    familiar += seen != k.segments.end() && seen->second >= kFamiliar ? segment.calls : 0;
  }
  if (operations < kMinOperations) {
    return {};
  }
  if (k.segments.size() + k.graphs.size() >= kMaxEntries) {
    k.clear();
  }
  const auto [graph_seen, is_new] =
      k.graphs.emplace(graph_key(graph, keys, has_loops), 4 * familiar >= 3 * operations);
  if (is_new) {
    for (const uint64_t key : keys) {
      ++k.segments[key];
    }
  }
  std::vector<size_t> cuts;
  for (const auto& segment : segments) {
    if (graph_seen->second && segment.begin != 0) {
      cuts.push_back(segment.begin);
    }
  }
  return cuts;
}

} // namespace ftm
