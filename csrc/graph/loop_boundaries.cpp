#include "graph/loop_boundaries.h"

#include <algorithm>
#include <tuple>

namespace ftm {
namespace {

// A segment has as many iterations as make about 96 calls, at most 8.
constexpr size_t kUnrolledSegmentCalls = 96;
constexpr size_t kMaxUnrolledIterations = 8;

uint64_t loop_signature(const CallSpec& spec) {
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

// Returns the number of live results at each call and at the end: produced before it and used at it
// or later.
std::vector<int64_t> count_live_results(const Graph& graph) {
  std::vector<int64_t> live(graph.calls.size() + 1);
  std::vector<size_t> producer, last_use;
  size_t operand = 0;
  for (size_t i = 0; i < graph.calls.size(); ++i) {
    for (size_t k = 0; k < graph.calls[i]->values.size(); ++k, ++operand) {
      const auto value = graph.operands[operand];
      if (!value.is_parameter()) {
        last_use[value.index()] = i;
      }
    }
    producer.insert(producer.end(), graph.calls[i]->spec().results.size(), i);
    last_use.resize(producer.size(), i);
  }
  for (size_t r = 0; r < producer.size(); ++r) {
    live[producer[r] + 1] += 1;
    live[last_use[r] + 1] -= 1;
  }
  for (size_t i = 1; i < live.size(); ++i) {
    live[i] += live[i - 1];
  }
  return live;
}

// Chooses the call at which the loop's iterations begin: the one with the fewest live results.
// Among equals, a hash of the following ops decides, so that every loop over this body is cut at
// the same call, whatever its sizes. Results that each iteration adds (as a forward pass does for
// the backward pass) are subtracted.
size_t best_begin(const Loop& loop, c10::ArrayRef<uint64_t> ops, c10::ArrayRef<int64_t> live) {
  const size_t first = loop.begin;
  const int64_t growth = live[first + 2 * loop.period] - live[first + loop.period];
  auto best = std::make_tuple(INT64_MAX, uint64_t{0}, first);
  for (size_t i = first; i < first + loop.period; ++i) {
    const int64_t cost = live[i + loop.period] * static_cast<int64_t>(loop.period) -
                         growth * static_cast<int64_t>(i - first);
    const uint64_t order = hash_words(ops.data() + i, std::min<size_t>(loop.period, 8));
    best = std::min(best, std::make_tuple(cost, order, i));
  }
  return std::get<2>(best);
}

void add_cuts(
    const Loop& loop, c10::ArrayRef<uint64_t> ops, c10::ArrayRef<int64_t> live,
    std::vector<size_t>& cuts) {
  const size_t begin = best_begin(loop, ops, live);
  const size_t count = (loop.begin + loop.length - begin) / loop.period;
  const size_t many =
      std::clamp<size_t>(kUnrolledSegmentCalls / loop.period, 1, kMaxUnrolledIterations);
  // The first and the last iteration usually differ from the others: the first reads other values,
  // and some results of the last are unused.
  size_t i = 0;
  const auto add_segment = [&](size_t iterations) {
    cuts.push_back(begin + i * loop.period);
    i += iterations;
  };
  add_segment(1);
  while (i + many < count) {
    add_segment(many);
  }
  while (i < count) {
    add_segment(1);
  }
  cuts.push_back(begin + count * loop.period);
}

} // namespace

std::vector<uint64_t> loop_signatures(const Graph& graph) {
  std::vector<uint64_t> signatures;
  signatures.reserve(graph.calls.size());
  for (const auto* call : graph.calls) {
    signatures.push_back(loop_signature(call->spec()));
  }
  return signatures;
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

std::vector<size_t> loop_cuts(const Graph& graph, c10::ArrayRef<Loop> loops) {
  const auto live = count_live_results(graph);
  std::vector<uint64_t> ops; // of each call, without sizes
  ops.reserve(graph.calls.size());
  for (const auto* call : graph.calls) {
    ops.push_back(call->spec().signature);
  }
  std::vector<size_t> cuts;
  for (const auto& loop : loops) {
    add_cuts(loop, ops, live, cuts);
  }
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  while (!cuts.empty() && cuts.back() == graph.calls.size()) {
    cuts.pop_back();
  }
  return cuts;
}

} // namespace ftm
