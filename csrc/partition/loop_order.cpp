#include "partition/loop_order.h"

#include <ATen/core/enum_tag.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace ftm {
namespace {

// Whether a call is cheap to move: it is elementwise, or has no operands.
bool is_light(const CallNode& call) {
  const auto& spec = call.spec();
  return spec.kind != CallSpec::Kind::aten || call.values.empty() ||
         spec.handle().hasTag(at::Tag::pointwise);
}

// For each call, the calls that produce its operands. Parameters have no producer.
class ProducerMap {
 public:
  explicit ProducerMap(const Graph& graph) {
    std::vector<int64_t> maker_of; // of each result
    size_t operand = 0;
    for (size_t i = 0; i < graph.calls.size(); ++i) {
      begins_.push_back(makers_.size());
      for (size_t k = 0; k < graph.calls[i]->values.size(); ++k) {
        const auto value = graph.operands[operand++];
        if (!value.is_parameter()) {
          makers_.push_back(maker_of[value.index()]);
        }
      }
      maker_of.insert(
          maker_of.end(), graph.calls[i]->spec().results.size(), static_cast<int64_t>(i));
    }
    begins_.push_back(makers_.size());
  }

  c10::ArrayRef<int64_t> of(int64_t call) const {
    return c10::ArrayRef<int64_t>(makers_).slice(begins_[call], begins_[call + 1] - begins_[call]);
  }

 private:
  std::vector<int64_t> makers_;
  std::vector<size_t> begins_; // for each call, and the end
};

constexpr int64_t kNear = 8; // a call is not moved across this few other calls

// Assigns each call a position: 3k is before call k, 3k + 1 is call k itself, and 3k + 2 is after
// it.
std::vector<int64_t> places_of(const Graph& graph, const ProducerMap& makers) {
  const auto n = static_cast<int64_t>(graph.calls.size());
  std::vector<int64_t> others; // for each call: those before it that are not light
  std::vector<int64_t> places(n, -1), before(n, -1);
  // Returns `place`, or the call's recorded position if that is near.
  const auto nearest = [&](int64_t call, int64_t place) {
    const int64_t between = std::abs(others[call] - others[place / 3]);
    return between != 0 && between <= kNear ? 3 * call + 1 : place;
  };
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    others.push_back(count);
    if (!is_light(*graph.calls[i])) {
      places[i] = 3 * i + 1;
      ++count;
      continue;
    }
    for (const int64_t maker : makers.of(i)) {
      places[i] = std::max(places[i], places[maker] < 0 ? -1 : places[maker] / 3 * 3 + 2);
    }
    if (places[i] >= 0) {
      places[i] = nearest(i, places[i]);
    }
  }
  for (int64_t i = n; i-- > 0;) {
    if (places[i] < 0) { // depends on no other call
      places[i] = before[i] < 0 ? 3 * i + 1 : i > before[i] / 3 ? before[i] : nearest(i, before[i]);
    }
    const int64_t latest = places[i] % 3 == 1 ? places[i] - 1 : places[i];
    for (const int64_t maker : makers.of(i)) {
      before[maker] = before[maker] < 0 ? latest : std::min(before[maker], latest);
    }
  }
  return places;
}

// Sorts calls by position. Calls with the same position are sorted depth-first: a call is followed
// by the calls that read its results and have no other unsatisfied dependency.
class Scheduler {
 public:
  Scheduler(c10::ArrayRef<int64_t> places, const ProducerMap& makers)
      : places_(places), missing_(places.size()), readers_(places.size()) {
    for (size_t i = 0; i < places.size(); ++i) {
      for (const int64_t maker : makers.of(i)) {
        if (places[maker] == places[i]) {
          ++missing_[i];
          readers_[maker].push_back(i);
        }
      }
    }
  }

  std::vector<size_t> order() {
    std::vector<size_t> by_place(places_.size());
    std::iota(by_place.begin(), by_place.end(), size_t{0});
    std::stable_sort(by_place.begin(), by_place.end(), [&](size_t a, size_t b) {
      return places_[a] < places_[b];
    });
    for (const size_t call : by_place) {
      if (missing_[call] == 0) {
        add_chain(call);
      }
    }
    return std::move(order_);
  }

 private:
  void add_chain(size_t call) {
    ready_.push_back(call);
    while (!ready_.empty()) {
      const size_t next = ready_.back();
      ready_.pop_back();
      if (missing_[next] == kAdded) {
        continue;
      }
      order_.push_back(next);
      missing_[next] = kAdded;
      const auto& readers = readers_[next];
      for (size_t k = readers.size(); k-- > 0;) {
        if (--missing_[readers[k]] == 0) {
          ready_.push_back(readers[k]);
        }
      }
    }
  }

  static constexpr size_t kAdded = SIZE_MAX;

  c10::ArrayRef<int64_t> places_;
  std::vector<size_t> missing_; // by call: number of producers at the same position that are not
                                // sorted yet; kAdded if sorted
  std::vector<c10::SmallVector<size_t, 2>> readers_; // by call: readers at the same position
  std::vector<size_t> ready_, order_;
};

Graph reordered(const Graph& graph, c10::ArrayRef<size_t> order) {
  std::vector<size_t> operands_begin, results_begin, scalars_begin; // of each call
  size_t operands = 0, results = 0, scalars = 0;
  for (const auto* call : graph.calls) {
    operands_begin.push_back(operands);
    results_begin.push_back(results);
    scalars_begin.push_back(scalars);
    operands += call->values.size();
    results += call->spec().results.size();
    scalars += call->scalars.size();
  }
  std::vector<int64_t> renumbered(results);
  int64_t next = 0;
  for (const size_t i : order) {
    for (size_t k = 0; k < graph.calls[i]->spec().results.size(); ++k) {
      renumbered[results_begin[i] + k] = next++;
    }
  }
  const auto number_of = [&](ValueNumber value) {
    return value.is_parameter() ? value : ValueNumber::result(renumbered[value.index()]);
  };
  Graph made;
  made.parameters = graph.parameters;
  made.results = graph.results;
  made.hash = graph.hash;
  for (const size_t i : order) {
    const auto* call = graph.calls[i];
    made.calls.push_back(call);
    for (size_t k = 0; k < call->values.size(); ++k) {
      made.operands.push_back(number_of(graph.operands[operands_begin[i] + k]));
      TORCH_INTERNAL_ASSERT(
          made.operands.back().is_parameter() ||
              made.operands.back().index() < renumbered[results_begin[i]],
          "a call precedes one on which it depends");
    }
    const auto first = graph.scalars.begin() + static_cast<std::ptrdiff_t>(scalars_begin[i]);
    made.scalars.insert(
        made.scalars.end(), first, first + static_cast<std::ptrdiff_t>(call->scalars.size()));
  }
  for (const auto result : graph.result_numbers) {
    made.result_numbers.push_back(number_of(result));
  }
  return made;
}

} // namespace

Graph reorder_for_loops(const Graph& graph) {
  const ProducerMap makers(graph);
  const auto places = places_of(graph, makers);
  return reordered(graph, Scheduler(places, makers).order());
}

} // namespace ftm
