#include "graph/repeat_finder.h"

#include "graph/structural_hash.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace ftm {
namespace {

// For each distance d: how many of the last calls equal the calls d before them (the Z function of
// the reversed sequence).
std::vector<size_t> repeated_calls(c10::ArrayRef<LoggedCall> calls) {
  const size_t n = calls.size();
  const auto reversed = [&](size_t i) { return calls[n - 1 - i].signature; };
  std::vector<size_t> repeated(n, 0);
  size_t begin = 0, end = 0; // the match that reaches farthest so far
  for (size_t i = 1; i < n; ++i) {
    size_t length = i < end ? std::min(end - i, repeated[i - begin]) : 0;
    while (i + length < n && reversed(length) == reversed(i + length)) {
      ++length;
    }
    repeated[i] = length;
    if (i + length > end) {
      begin = i;
      end = i + length;
    }
  }
  return repeated;
}

// Returns the loop's period, or 0 if there is no loop.
size_t find_period(c10::ArrayRef<LoggedCall> calls) {
  const auto repeated = repeated_calls(calls);
  size_t best = 0, best_covered = 0;
  for (size_t period = 1; period <= calls.size() / 2; ++period) {
    const size_t covered = period + repeated[period];
    if (repeated[period] >= period && covered > best_covered) {
      best = period;
      best_covered = covered;
    }
  }
  return 4 * best_covered >= 3 * calls.size() ? best : 0;
}

// For each of the last `period` positions: the sequence_hash of the iteration that ends there.
std::vector<uint64_t> iteration_hashes(c10::ArrayRef<LoggedCall> calls, size_t period) {
  uint64_t power = 1; // weight of a call that is `period` calls old
  for (size_t i = 0; i < period; ++i) {
    power *= kSequenceBase;
  }
  const size_t first = calls.size() - period;
  std::vector<uint64_t> hashes = {sequence_hash(calls.slice(first - period, period))};
  for (size_t i = first; i + 1 < calls.size(); ++i) {
    hashes.push_back(extended(hashes.back(), calls[i]) - power * calls[i - period].signature);
  }
  return hashes;
}

constexpr size_t kGram = 3; // equal elements in a row that suggest a repetition
constexpr size_t kMaxCandidates = 16; // periods to try at one position
constexpr size_t kMaxComparisons = 64; // for each element of a sequence; bounds the run time
constexpr size_t kMinIterations = 3; // of a loop

// For each position, the next one where the same kGram elements begin; SIZE_MAX if there is none.
std::vector<size_t> next_match(c10::ArrayRef<uint64_t> sequence) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  std::vector<size_t> next(sequence.size(), kNone);
  std::unordered_map<uint64_t, size_t> last;
  for (size_t i = sequence.size() < kGram ? 0 : sequence.size() - kGram + 1; i-- > 0;) {
    const auto [found, is_new] = last.emplace(hash_words(sequence.data() + i, kGram), i);
    if (!is_new) {
      next[i] = found->second;
      found->second = i;
    }
  }
  return next;
}

} // namespace

std::vector<Loop> find_loops(c10::ArrayRef<uint64_t> sequence) {
  const size_t n = sequence.size();
  const auto next = next_match(sequence);
  std::vector<Loop> loops;
  size_t comparisons = 0;
  for (size_t i = 0; i < n && comparisons < kMaxComparisons * n;) {
    Loop best{i, 1, 0};
    size_t tries = 0;
    for (size_t j = next[i]; j < n && kMinIterations * (j - i) <= n - i && tries < kMaxCandidates;
         j = next[j], ++tries) {
      size_t end = j;
      while (end < n && sequence[end] == sequence[end - (j - i)]) {
        ++end;
      }
      comparisons += end - j + 1;
      const Loop loop{i, j - i, end - i};
      if (loop.count() >= kMinIterations &&
          loop.count() * loop.period > best.count() * best.period) {
        best = loop;
      }
    }
    if (best.length != 0) {
      loops.push_back(best);
    }
    i += std::max<size_t>(best.length, 1);
  }
  return loops;
}

uint64_t sequence_hash(c10::ArrayRef<LoggedCall> calls) {
  uint64_t hash = 0;
  for (const auto call : calls) {
    hash = extended(hash, call);
  }
  return hash;
}

std::optional<LoopCut> find_loop(
    c10::ArrayRef<LoggedCall> calls, const std::unordered_set<uint64_t>& known_iterations) {
  const size_t period = find_period(calls);
  if (period == 0) {
    return std::nullopt;
  }
  const size_t n = calls.size();
  const size_t first = n - period;
  const auto hashes = iteration_hashes(calls, period);
  // Results that each iteration adds, as a forward pass does for the backward pass, count equally
  // at every position: subtract them.
  const int64_t growth = static_cast<int64_t>(calls[n - 1].pending) - calls[n - 1 - period].pending;
  size_t best = first;
  int64_t least = INT64_MAX;
  for (size_t i = first; i < n; ++i) {
    if (known_iterations.count(hashes[i - first]) != 0) {
      best = i;
      break;
    }
    const int64_t cost =
        calls[i].pending * static_cast<int64_t>(period) - growth * static_cast<int64_t>(i - first);
    if (cost < least) {
      best = i;
      least = cost;
    }
  }
  return LoopCut{best == first ? n : best + period, period};
}

} // namespace ftm
