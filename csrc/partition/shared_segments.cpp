#include "partition/shared_segments.h"

#include "partition/split_concat.h"
#include "partition/anchored_segments.h"

#include <unordered_map>
#include <unordered_set>

namespace ftm {
namespace {

constexpr size_t kLeastOperations = 24; // of a graph that is worth several programs
constexpr int kFamiliar = 3; // other graphs that had a stretch: a training step, its first one and
                             // an evaluation are not yet many
constexpr size_t kMostKnown = 16384; // stretches or graphs

struct Arrangements {
  std::unordered_map<uint64_t, int> stretches; // in how many different graphs each was
  std::unordered_map<uint64_t, bool> graphs; // whether each is cut
};

Arrangements& arrangements() {
  static auto* instance = new Arrangements;
  return *instance;
}

// Graphs with the same stretches any number of times are one if they have loops.
uint64_t kind_of_arrangement(
    const Graph& graph, const std::unordered_set<uint64_t>& keys, bool has_loops) {
  if (!has_loops) {
    return kind_of_graph(graph);
  }
  uint64_t kind = 0;
  for (const uint64_t key : keys) {
    kind += hash_words(&key, 1);
  }
  return kind;
}

} // namespace

std::vector<size_t> cuts_of_arrangement(const Graph& graph, bool has_loops) {
  const auto stretches = stretches_of(graph);
  std::unordered_set<uint64_t> keys;
  size_t operations = 0, familiar = 0;
  auto& k = arrangements();
  for (const auto& stretch : stretches) {
    keys.insert(stretch.key);
    operations += stretch.calls;
    const auto seen = k.stretches.find(stretch.key);
    familiar += seen != k.stretches.end() && seen->second >= kFamiliar ? stretch.calls : 0;
  }
  if (operations < kLeastOperations) {
    return {};
  }
  if (k.stretches.size() + k.graphs.size() >= kMostKnown) {
    forget_arrangements();
  }
  const auto [graph_seen, is_new] =
      k.graphs.emplace(kind_of_arrangement(graph, keys, has_loops), 4 * familiar >= 3 * operations);
  if (is_new) {
    for (const uint64_t key : keys) {
      ++k.stretches[key];
    }
  }
  std::vector<size_t> cuts;
  for (const auto& stretch : stretches) {
    if (graph_seen->second && stretch.begin != 0) {
      cuts.push_back(stretch.begin);
    }
  }
  return cuts;
}

void forget_arrangements() {
  arrangements() = {};
}

} // namespace ftm
