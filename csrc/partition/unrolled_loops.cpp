#include "partition/unrolled_loops.h"

#include "graph/loop_detector.h"
#include "partition/split_concat.h"
#include "graph/recorder_lock.h"
#include "graph/loop_boundaries.h"
#include "partition/loop_order.h"
#include "partition/shared_segments.h"
#include "partition/trace_frequency.h"
#include "program/program_table.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace ftm {
namespace {

constexpr size_t kLeastCalls = 16; // of a loop that is worth a look
constexpr size_t kRememberedLoops = 4096; // loops
constexpr size_t kCounts =
    2; // different numbers of values that are concatenated, until it is any number

// Of layers: below that a compile is short, and a piece is not worth a launch.
constexpr size_t kLeastSaved = 400; // calls
constexpr size_t kLeastLayer = 16; // calls

// The numbers of iterations that loops with one iteration had.
struct IterationCounts {
  std::vector<size_t> first_trace; // of the loops in the first trace that had any
  bool vary = false; // a later trace had another one
};

// Under the recorder's lock.
struct Known {
  std::unordered_map<uint64_t, IterationCounts> loops; // by their iteration_key
  // Different numbers of values, for concatenations of a kind or in graphs of a kind.
  std::unordered_map<uint64_t, std::vector<size_t>> concatenated;
};

Known& known() {
  static auto* instance = new Known;
  return *instance;
}

// The loops whose number of iterations differs between traces. Several loops with the same
// iteration in one trace do not vary, whatever their counts: an optimizer's step has one for each
// run of parameters of one shape.
std::vector<Loop> varying_loops(c10::ArrayRef<Loop> found, c10::ArrayRef<uint64_t> alike) {
  auto& loops = known().loops;
  if (loops.size() >= kRememberedLoops) {
    loops.clear();
  }
  std::vector<std::pair<uint64_t, const Loop*>> keyed;
  for (const auto& loop : found) {
    if (loop.count() * loop.period >= kLeastCalls) {
      keyed.emplace_back(iteration_key(alike.slice(loop.begin, loop.period)), &loop);
    }
  }
  std::unordered_set<uint64_t> seen_first; // in this trace
  for (const auto& [key, loop] : keyed) {
    if (seen_first.count(key) != 0 || loops.count(key) == 0) {
      seen_first.insert(key);
      loops[key].first_trace.push_back(loop->count());
    } else {
      auto& counts = loops[key];
      const auto& first = counts.first_trace;
      counts.vary =
          counts.vary || std::find(first.begin(), first.end(), loop->count()) == first.end();
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

// Whether so many different counts have come for a key.
bool varies(uint64_t key, size_t count) {
  auto& concatenated = known().concatenated;
  if (concatenated.size() >= kRememberedLoops) {
    concatenated.clear();
  }
  auto& counts = concatenated[key];
  if (counts.size() < kCounts && std::find(counts.begin(), counts.end(), count) == counts.end()) {
    counts.push_back(count);
  }
  return counts.size() == kCounts;
}

// All concatenations, if graphs of this kind come with any number of values in them.
std::vector<size_t> concatenations_that_vary(const Graph& graph) {
  auto found = concatenations_of(graph);
  size_t values = 0;
  for (const size_t i : found) {
    values = values * kRememberedLoops + graph.calls[i]->values.size();
  }
  // Values that are of one type by chance, as a row behind a cache of one row, make no other number
  // of values.
  const uint64_t kind[] = {kind_of_graph(graph), found.size()};
  return !found.empty() && varies(hash_words(kind, 2), values) ? found : std::vector<size_t>();
}

// Those that come with any number of values, in a graph whose loops vary.
std::vector<size_t> concatenations_behind_loops(const Graph& graph) {
  auto found = concatenations_of(graph);
  const auto is_fixed = [&](size_t i) {
    const auto& call = *graph.calls[i];
    return !varies(kind_of_concatenation(call), call.values.size());
  };
  found.erase(std::remove_if(found.begin(), found.end(), is_fixed), found.end());
  return found;
}

PiecedGraph cut_in_steps(
    const Graph& graph, c10::ArrayRef<size_t> concatenations, c10::ArrayRef<size_t> cuts) {
  auto steps = concatenate_in_steps(graph, concatenations, cuts);
  auto cut = cut_graph(steps.graph, steps.cuts);
  cut.calls = std::move(steps.calls);
  for (auto& piece : cut.pieces) {
    piece.any_size = piece.graph.calls.size() == 1 &&
                     piece.graph.calls[0]->spec().concatenates != Concatenation::none;
  }
  return cut;
}

// The number of calls in programs that are still to be built.
size_t calls_to_compile(const PiecedGraph& cut) {
  std::unordered_set<Hash128, Hash128Hasher> seen;
  size_t calls = 0;
  for (const auto& piece : cut.pieces) {
    if (seen.insert(piece.graph.hash).second && !find_program(piece.graph.hash, piece.graph)) {
      calls += piece.graph.calls.size();
    }
  }
  return calls;
}

// A long graph, in the order of its loops, cut into layers if they are worth it.
std::optional<PiecedGraph> layers_of(
    const Graph& graph, std::vector<Loop> loops, c10::ArrayRef<uint64_t> alike) {
  if (graph.calls.size() < 2 * kLeastSaved) {
    return std::nullopt;
  }
  loops.erase(
      std::remove_if(
          loops.begin(), loops.end(), [](const Loop& loop) { return loop.period < kLeastLayer; }),
      loops.end());
  if (loops.empty()) {
    return std::nullopt;
  }
  auto cut = cut_graph(graph, loop_cuts(graph, loops, alike));
  const size_t calls = calls_to_compile(cut);
  const bool is_worth_it =
      5 * calls <= 2 * graph.calls.size() && calls + kLeastSaved <= graph.calls.size();
  return is_worth_it ? std::make_optional(std::move(cut)) : std::nullopt;
}

} // namespace

std::optional<PiecedGraph> iterations_of(const Graph& graph) {
  if (!cuts_loops()) {
    return std::nullopt;
  }
  const auto concatenations = concatenations_that_vary(graph);
  if (!concatenations.empty()) {
    return is_frequent(graph.hash) ? std::nullopt
                                   : std::make_optional(cut_in_steps(graph, concatenations, {}));
  }
  if (graph.calls.size() < kLeastCalls) {
    return std::nullopt;
  }
  const Graph ordered = in_order_of_loops(graph);
  const auto alike = loop_signatures(ordered);
  auto loops = find_loops(alike);
  const auto varying = varying_loops(loops, alike);
  const auto arranged = cuts_of_arrangement(graph, !varying.empty());
  if (varying.empty() && arranged.empty()) {
    return layers_of(ordered, std::move(loops), alike);
  }
  if (is_frequent(graph.hash)) {
    return std::nullopt;
  }
  if (!arranged.empty()) {
    return cut_in_steps(graph, concatenations_behind_loops(graph), arranged);
  }
  note_unrolled(graph);
  const auto positions = loop_cuts(ordered, varying, alike);
  return positions.empty() ? std::nullopt
                           : std::make_optional(cut_in_steps(
                                 ordered, concatenations_behind_loops(ordered), positions));
}

void forget_loops() {
  const RecorderLock lock(recorder_mutex());
  known() = {};
  forget_arrangements();
  forget_frequencies();
}

} // namespace ftm
