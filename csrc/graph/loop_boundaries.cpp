#include "graph/loop_boundaries.h"

#include <algorithm>
#include <tuple>

namespace ftm {
namespace {

constexpr size_t kPieceCalls = 96; // about as many make a piece
constexpr size_t kPieceIterations = 8; // but not more of these

uint64_t likeness(const CallSpec& spec) {
  if (spec.kind != CallSpec::Kind::view && spec.kind != CallSpec::Kind::update) {
    return spec.hash.low;
  }
  Hash128 hash;
  hash.add(static_cast<uint64_t>(spec.kind));
  hash.add(static_cast<uint64_t>(spec.results[0].type.dtype));
  for (const auto extents : {c10::IntArrayRef(spec.sizes), c10::IntArrayRef(spec.strides)}) {
    for (const int64_t extent : extents) {
      hash.add(static_cast<uint64_t>(extent));
    }
  }
  return hash.low;
}

// For each call, and the end: how many results that were made before are used from there on.
std::vector<int64_t> results_held(const Graph& graph) {
  std::vector<int64_t> held(graph.calls.size() + 1);
  std::vector<size_t> made, last;
  size_t operand = 0;
  for (size_t i = 0; i < graph.calls.size(); ++i) {
    for (size_t k = 0; k < graph.calls[i]->values.size(); ++k, ++operand) {
      const auto value = graph.operands[operand];
      if (!value.is_parameter()) {
        last[value.index()] = i;
      }
    }
    made.insert(made.end(), graph.calls[i]->spec().results.size(), i);
    last.resize(made.size(), i);
  }
  for (size_t r = 0; r < made.size(); ++r) {
    held[made[r] + 1] += 1;
    held[last[r] + 1] -= 1;
  }
  for (size_t i = 1; i < held.size(); ++i) {
    held[i] += held[i - 1];
  }
  return held;
}

// Where the loop's iterations begin best: where the least is held, and of such places the same one
// for every loop of this iteration. What each iteration leaves behind counts the same everywhere.
size_t best_begin(const Loop& loop, c10::ArrayRef<uint64_t> alike, c10::ArrayRef<int64_t> held) {
  const size_t first = loop.begin;
  const int64_t left = held[first + 2 * loop.period] - held[first + loop.period];
  auto best = std::make_tuple(INT64_MAX, uint64_t{0}, first);
  for (size_t i = first; i < first + loop.period; ++i) {
    const int64_t cost = held[i + loop.period] * static_cast<int64_t>(loop.period) -
                         left * static_cast<int64_t>(i - first);
    const uint64_t order = hash_words(alike.data() + i, std::min<size_t>(loop.period, 8));
    best = std::min(best, std::make_tuple(cost, order, i));
  }
  return std::get<2>(best);
}

void add_cuts(
    const Loop& loop, c10::ArrayRef<uint64_t> alike, c10::ArrayRef<int64_t> held,
    std::vector<size_t>& cuts) {
  const size_t begin = best_begin(loop, alike, held);
  const size_t count = (loop.begin + loop.length - begin) / loop.period;
  const size_t many = std::clamp<size_t>(kPieceCalls / loop.period, 1, kPieceIterations);
  // The first and the last iteration are seldom like the others: what they read comes from
  // elsewhere, or nobody reads what they leave.
  size_t i = 0;
  const auto take = [&](size_t iterations) {
    cuts.push_back(begin + i * loop.period);
    i += iterations;
  };
  take(1);
  while (i + many < count) {
    take(many);
  }
  while (i < count) {
    take(1);
  }
  cuts.push_back(begin + count * loop.period);
}

} // namespace

std::vector<uint64_t> likenesses(const Graph& graph) {
  std::vector<uint64_t> alike;
  alike.reserve(graph.calls.size());
  for (const auto* call : graph.calls) {
    alike.push_back(likeness(call->spec()));
  }
  return alike;
}

uint64_t iteration_key(c10::ArrayRef<uint64_t> iteration) {
  const size_t period = iteration.size();
  uint64_t key = period;
  for (size_t i = 0; i < period; ++i) {
    const uint64_t calls[] = {
        iteration[i], iteration[(i + 1) % period], iteration[(i + 2) % period]};
    key += hash_words(calls, 3);
  }
  return key;
}

std::vector<size_t> cuts_of(
    const Graph& graph, c10::ArrayRef<Loop> loops, c10::ArrayRef<uint64_t> alike) {
  const auto held = results_held(graph);
  std::vector<size_t> cuts;
  for (const auto& loop : loops) {
    add_cuts(loop, alike, held, cuts);
  }
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  while (!cuts.empty() && cuts.back() == graph.calls.size()) {
    cuts.pop_back();
  }
  return cuts;
}

} // namespace ftm
