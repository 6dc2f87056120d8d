#include "partition/reorder_for_loops.h"

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
    std::vector<int64_t> producer_of; // of each result
    size_t operand = 0;
    for (size_t i = 0; i < graph.calls.size(); ++i) {
      begins_.push_back(producers_.size());
      for (size_t k = 0; k < graph.calls[i]->values.size(); ++k) {
        const auto value = graph.operands[operand++];
        if (!value.is_parameter()) {
          producers_.push_back(producer_of[value.index()]);
        }
      }
      producer_of.insert(
          producer_of.end(), graph.calls[i]->spec().results.size(), static_cast<int64_t>(i));
    }
    begins_.push_back(producers_.size());
  }

  c10::ArrayRef<int64_t> of(int64_t call) const {
    return c10::ArrayRef<int64_t>(producers_)
        .slice(begins_[call], begins_[call + 1] - begins_[call]);
  }

 private:
  std::vector<int64_t> producers_;
  std::vector<size_t> begins_; // for each call, and the end
};

constexpr int64_t kNear = 8; // a call is not moved across this few other calls

// Assigns each call a position: 3k is before call k, 3k + 1 is call k itself, and 3k + 2 is after
// it.
std::vector<int64_t> assign_positions(const Graph& graph, const ProducerMap& producers) {
  const auto n = static_cast<int64_t>(graph.calls.size());
  std::vector<int64_t> others; // for each call: those before it that are not light
  std::vector<int64_t> positions(n, -1), before(n, -1);
  // Returns `position`, or the call's recorded position if that is near.
  const auto nearest = [&](int64_t call, int64_t position) {
    const int64_t between = std::abs(others[call] - others[position / 3]);
    return between != 0 && between <= kNear ? 3 * call + 1 : position;
  };
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    others.push_back(count);
    if (!is_light(*graph.calls[i])) {
      positions[i] = 3 * i + 1;
      ++count;
      continue;
    }
    for (const int64_t producer : producers.of(i)) {
      positions[i] =
          std::max(positions[i], positions[producer] < 0 ? -1 : positions[producer] / 3 * 3 + 2);
    }
    if (positions[i] >= 0) {
      positions[i] = nearest(i, positions[i]);
    }
  }
  for (int64_t i = n; i-- > 0;) {
    if (positions[i] < 0) { // depends on no other call
      positions[i] = before[i] < 0       ? 3 * i + 1
                     : i > before[i] / 3 ? before[i]
                                         : nearest(i, before[i]);
    }
    const int64_t latest = positions[i] % 3 == 1 ? positions[i] - 1 : positions[i];
    for (const int64_t producer : producers.of(i)) {
      before[producer] = before[producer] < 0 ? latest : std::min(before[producer], latest);
    }
  }
  return positions;
}

// Sorts calls by position. Calls with the same position are sorted depth-first: a call is followed
// by the calls that read its results and have no other unsatisfied dependency.
class Scheduler {
 public:
  Scheduler(c10::ArrayRef<int64_t> positions, const ProducerMap& producers)
      : positions_(positions), unsorted_(positions.size()), readers_(positions.size()) {
    for (size_t i = 0; i < positions.size(); ++i) {
      for (const int64_t producer : producers.of(i)) {
        if (positions[producer] == positions[i]) {
          ++unsorted_[i];
          readers_[producer].push_back(i);
        }
      }
    }
  }

  std::vector<size_t> order() {
    std::vector<size_t> by_position(positions_.size());
    std::iota(by_position.begin(), by_position.end(), size_t{0});
    std::stable_sort(by_position.begin(), by_position.end(), [&](size_t a, size_t b) {
      return positions_[a] < positions_[b];
    });
    for (const size_t call : by_position) {
      if (unsorted_[call] == 0) {
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
      if (unsorted_[next] == kAdded) {
        continue;
      }
      order_.push_back(next);
      unsorted_[next] = kAdded;
      const auto& readers = readers_[next];
      for (size_t k = readers.size(); k-- > 0;) {
        if (--unsorted_[readers[k]] == 0) {
          ready_.push_back(readers[k]);
        }
      }
    }
  }

  static constexpr size_t kAdded = SIZE_MAX;

  c10::ArrayRef<int64_t> positions_;
  std::vector<size_t> unsorted_; // by call: number of producers at the same position that are not
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
  Graph reordered_graph;
  reordered_graph.parameters = graph.parameters;
  reordered_graph.results = graph.results;
  reordered_graph.hash = graph.hash;
  for (const size_t i : order) {
    const auto* call = graph.calls[i];
    reordered_graph.calls.push_back(call);
    for (size_t k = 0; k < call->values.size(); ++k) {
      reordered_graph.operands.push_back(number_of(graph.operands[operands_begin[i] + k]));
      TORCH_INTERNAL_ASSERT(
          reordered_graph.operands.back().is_parameter() ||
              reordered_graph.operands.back().index() < renumbered[results_begin[i]],
          "a call precedes one on which it depends");
    }
    const auto first = graph.scalars.begin() + static_cast<std::ptrdiff_t>(scalars_begin[i]);
    reordered_graph.scalars.insert(
        reordered_graph.scalars.end(), first,
        first + static_cast<std::ptrdiff_t>(call->scalars.size()));
  }
  for (const auto result : graph.result_numbers) {
    reordered_graph.result_numbers.push_back(number_of(result));
  }
  return reordered_graph;
}

} // namespace

Graph reorder_for_loops(const Graph& graph) {
  const ProducerMap producers(graph);
  const auto positions = assign_positions(graph, producers);
  return reordered(graph, Scheduler(positions, producers).order());
}

} // namespace ftm
