#include "partition/unrolled_loops.h"

#include "graph/loop_detector.h"
#include "partition/split_concat.h"
#include "graph/recorder_lock.h"
#include "graph/loop_boundaries.h"
#include "partition/reorder_for_loops.h"
#include "partition/shared_segments.h"
#include "partition/whole_programs.h"
#include "program/program_table.h"
#include "support/runtime.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace ftm {
namespace {

constexpr size_t kMinLoopCalls = 16; // of a loop that may be cut
constexpr size_t kMaxLoops = 4096; // loops, or kinds of concatenations
constexpr size_t kMinCounts = 2; // different counts of a concatenation that make it variable

// Limits for layers. With fewer calls compilation is fast, and a program is not worth a launch.
constexpr size_t kMinSavedCalls = 400;
constexpr size_t kMinLayerCalls = 16;

// The numbers of iterations that the loops with the same iteration had.
struct IterationCounts {
  std::vector<size_t> first_trace; // of the loops in the first trace that had any
  size_t first_total = 0; // in that trace, also outside of loops
  bool vary = false; // a later trace had another number
};

// Guarded by the recorder's lock.
struct LoopHistory {
  std::unordered_map<uint64_t, IterationCounts> loops; // by their iteration_key
  // Different numbers of values, by concatenation (concat_key) or graph (operations_key).
  std::unordered_map<uint64_t, std::vector<size_t>> concatenated;

  void reset() {
    const RecorderLock lock(recorder_mutex());
    loops.clear();
    concatenated.clear();
  }
};

std::unordered_map<uint64_t, size_t> count_signatures(c10::ArrayRef<uint64_t> signatures) {
  std::unordered_map<uint64_t, size_t> counts;
  for (const uint64_t signature : signatures) {
    ++counts[signature];
  }
  return counts;
}

// Returns how many times a trace has an iteration's calls, in any order.
size_t count_iterations(
    c10::ArrayRef<uint64_t> iteration, const std::unordered_map<uint64_t, size_t>& in_trace) {
  size_t least = SIZE_MAX;
  for (const auto& [signature, count] : count_signatures(iteration)) {
    least = std::min(least, in_trace.at(signature) / count);
  }
  return least;
}

// Returns the loops whose number of iterations differs between traces. Several loops with the same
// iteration in one trace do not vary, even if their counts differ: an optimizer's step has one for
// each run of parameters with the same shape. Nor do loops vary if a trace has the same iterations
// in other runs: after DistributedDataParallel has rebuilt its buckets, parameters are in another
// order.
std::vector<Loop> varying_loops(c10::ArrayRef<Loop> found, c10::ArrayRef<uint64_t> signatures) {
  auto& loops = part<LoopHistory>().loops;
  if (loops.size() >= kMaxLoops) {
    loops.clear();
  }
  std::vector<std::pair<uint64_t, const Loop*>> keyed;
  for (const auto& loop : found) {
    if (loop.count() * loop.period >= kMinLoopCalls) {
      keyed.emplace_back(iteration_key(signatures.slice(loop.begin, loop.period)), &loop);
    }
  }
  const auto in_trace = count_signatures(signatures);
  std::unordered_set<uint64_t> seen_first; // in this trace
  for (const auto& [key, loop] : keyed) {
    const size_t total = count_iterations(signatures.slice(loop->begin, loop->period), in_trace);
    if (seen_first.count(key) != 0 || loops.count(key) == 0) {
      seen_first.insert(key);
      loops[key].first_trace.push_back(loop->count());
      loops[key].first_total = total;
    } else {
      auto& counts = loops[key];
      const auto& first = counts.first_trace;
      const bool is_first_count =
          std::find(first.begin(), first.end(), loop->count()) != first.end();
      counts.vary = counts.vary || !(is_first_count || total == counts.first_total);
    }
  }
  std::vector<Loop> varying;
  for (const auto& [key, loop] : keyed) {
    if (loops[key].vary) {
      varying.push_back(*loop);
    }
  }
  return varying;
}

// Notes a count for a key; returns whether the key has had at least two different counts.
bool count_varies(uint64_t key, size_t count) {
  auto& concatenated = part<LoopHistory>().concatenated;
  if (concatenated.size() >= kMaxLoops) {
    concatenated.clear();
  }
  auto& counts = concatenated[key];
  if (counts.size() < kMinCounts &&
      std::find(counts.begin(), counts.end(), count) == counts.end()) {
    counts.push_back(count);
  }
  return counts.size() == kMinCounts;
}

// Returns all concatenations if the numbers of their values vary between graphs with the same
// operations; otherwise none.
std::vector<size_t> varying_concats(const Graph& graph) {
  auto found = find_concats(graph);
  size_t values = 0;
  for (const size_t i : found) {
    values = values * kMaxLoops + graph.calls[i]->values.size();
  }
  // The key includes the number of concatenations: values may have one type by chance, such as a
  // new row and a cache of one row, and such a graph is a different one.
  const uint64_t kind[] = {operations_key(graph), found.size()};
  return !found.empty() && count_varies(hash_words(kind, 2), values) ? found
                                                                     : std::vector<size_t>();
}

// Returns the concatenations whose number of values varies, in a graph whose loops vary.
std::vector<size_t> varying_concats_of_loops(const Graph& graph) {
  auto found = find_concats(graph);
  const auto is_fixed = [&](size_t i) {
    const auto& call = *graph.calls[i];
    return !count_varies(concat_key(call), call.values.size());
  };
  found.erase(std::remove_if(found.begin(), found.end(), is_fixed), found.end());
  return found;
}

// Whether a graph only concatenates, values or parts of values.
bool is_concatenation(const Graph& graph) {
  c10::SmallVector<const CallSpec*, 2> computing;
  for (const auto* call : graph.calls) {
    if (call->spec().kind != CallSpec::Kind::view) {
      computing.push_back(&call->spec());
    }
  }
  return computing.size() == 1 && computing[0]->concatenates != Concatenation::none;
}

PartitionedGraph cut_and_split_concats(
    const Graph& graph, c10::ArrayRef<size_t> concatenations, c10::ArrayRef<size_t> cuts) {
  auto split = split_concats(graph, concatenations, cuts);
  auto cut = cut_graph(split.graph, split.cuts);
  cut.calls = std::move(split.calls);
  for (auto& subgraph : cut.subgraphs) {
    subgraph.any_size = is_concatenation(subgraph.graph);
  }
  return cut;
}

// Returns the number of calls in programs that are not compiled yet.
size_t calls_to_compile(const PartitionedGraph& cut) {
  std::unordered_set<Hash128, Hash128Hasher> seen;
  size_t calls = 0;
  for (const auto& subgraph : cut.subgraphs) {
    if (seen.insert(subgraph.graph.hash).second &&
        !find_program(subgraph.graph.hash, subgraph.graph)) {
      calls += subgraph.graph.calls.size();
    }
  }
  return calls;
}

// Cuts a long graph, whose calls are ordered for loops, into layers, if that saves enough
// compilation.
std::optional<PartitionedGraph> split_layers(const Graph& graph, std::vector<Loop> loops) {
  if (graph.calls.size() < 2 * kMinSavedCalls) {
    return std::nullopt;
  }
  loops.erase(
      std::remove_if(
          loops.begin(), loops.end(),
          [](const Loop& loop) { return loop.period < kMinLayerCalls; }),
      loops.end());
  if (loops.empty()) {
    return std::nullopt;
  }
  auto cut = cut_graph(graph, loop_cuts(graph, loops));
  const size_t calls = calls_to_compile(cut);
  const bool is_worth_it =
      5 * calls <= 2 * graph.calls.size() && calls + kMinSavedCalls <= graph.calls.size();
  return is_worth_it ? std::make_optional(std::move(cut)) : std::nullopt;
}

} // namespace

std::optional<PartitionedGraph> split_loops(const Graph& graph) {
  if (!cuts_loops()) {
    return std::nullopt;
  }
  const auto concatenations = varying_concats(graph);
  if (!concatenations.empty()) {
    return cut_and_split_concats(graph, concatenations, {});
  }
  if (graph.calls.size() < kMinLoopCalls) {
    return std::nullopt;
  }
  const Graph ordered = reorder_for_loops(graph);
  const auto signatures = loop_signatures(ordered);
  auto loops = find_loops(signatures);
  const auto varying = varying_loops(loops, signatures);
  const auto segment_cuts = shared_segment_cuts(graph, !varying.empty());
  if (varying.empty() && segment_cuts.empty()) {
    return split_layers(ordered, std::move(loops));
  }
  if (!segment_cuts.empty()) {
    return cut_and_split_concats(graph, varying_concats_of_loops(graph), segment_cuts);
  }
  note_unrolled(graph);
  const auto positions = loop_cuts(ordered, varying);
  return positions.empty() ? std::nullopt
                           : std::make_optional(cut_and_split_concats(
                                 ordered, varying_concats_of_loops(ordered), positions));
}

} // namespace ftm
