#include "graph/loop_detector.h"

#include "graph/loop_boundaries.h"
#include "support/runtime.h"

#include <c10/util/Exception.h>

#include <limits>
#include <map>
#include <mutex>

namespace ftm {
namespace {

constexpr size_t kSegmentCalls = 256; // calls that make a segment of a loop worth a program
constexpr size_t kMaxSegments = 512; // that are remembered
// A loop that is unrolled at the launch is cut while recording only beyond this many loop lengths.
constexpr size_t kUnrolledLengths = 8;
constexpr size_t kNever = std::numeric_limits<size_t>::max();

std::atomic<size_t> loop_length{700};

// The cuts that were made in any trace of this process.
struct CutHistory {
  std::mutex mutex; // acquired alone, or while the recorder's lock is held
  // The calls between two cuts, by their number and sequence_hash. The value is whether they are
  // whole iterations of a loop and nothing else.
  std::map<size_t, std::unordered_map<uint64_t, bool>> by_length;
  std::unordered_set<uint64_t> iterations; // sequence_hash of loop iterations, beginning at a cut
  std::unordered_set<uint64_t> unrolled; // iteration_keys of loops that are cut at the launch
  size_t count = 0;

  void add(size_t length, uint64_t hash, bool is_loop) {
    if (by_length[length].emplace(hash, is_loop).second) {
      ++count;
    }
  }
  void clear() {
    by_length.clear();
    iterations.clear();
    unrolled.clear();
    count = 0;
  }
  void reset() {
    const std::lock_guard<std::mutex> guard(mutex);
    clear();
  }
};

// Whether these calls are whole iterations of a loop; nullopt if no such segment was cut before.
std::optional<bool> find_segment(size_t length, uint64_t hash) {
  auto& p = part<CutHistory>();
  const std::lock_guard<std::mutex> guard(p.mutex);
  const auto found = p.by_length.find(length);
  if (found == p.by_length.end()) {
    return std::nullopt;
  }
  const auto segment = found->second.find(hash);
  return segment == found->second.end() ? std::nullopt : std::make_optional(segment->second);
}

// Records that these calls are cut off, where the last `period` of them are an iteration. Also
// records the next segment: as many iterations as are worth a program.
void remember_cut(c10::ArrayRef<LoggedCall> calls, uint64_t hash, size_t period) {
  const auto iteration = calls.slice(calls.size() - period, period);
  uint64_t segment = 0;
  size_t length = 0;
  while (length < kSegmentCalls) {
    for (const auto call : iteration) {
      segment = extended(segment, call);
    }
    length += period;
  }
  auto& p = part<CutHistory>();
  const std::lock_guard<std::mutex> guard(p.mutex);
  if (p.count + 2 > kMaxSegments) {
    p.clear();
  }
  p.add(calls.size(), hash, false);
  p.add(length, segment, true);
  p.iterations.insert(sequence_hash(iteration));
}

uint64_t last_iteration_key(c10::ArrayRef<LoggedCall> calls, size_t period) {
  std::vector<uint64_t> iteration;
  for (const auto& call : calls.slice(calls.size() - period)) {
    iteration.push_back(call.signature);
  }
  return iteration_key(iteration);
}

} // namespace

CallLog::CallLog() {
  clear();
}

void CallLog::add(const CallSpec& spec, size_t pending) {
  if (spec.signature != 0) {
    calls_.push_back({spec.signature, static_cast<uint32_t>(pending)});
    length_.store(calls_.size(), std::memory_order_relaxed);
  }
}

void CallLog::clear() {
  calls_.clear();
  hashed_ = 0;
  hash_ = 0;
  plan_.reset();
  is_loop_segment_ = false;
  next_search_ = loop_length == 0 ? kNever : loop_length.load();
  length_.store(0, std::memory_order_relaxed);
  schedule_check();
}

bool CallLog::should_cut() {
  for (; hashed_ < calls_.size(); ++hashed_) {
    hash_ = extended(hash_, calls_[hashed_]);
  }
  if (const auto is_loop = find_segment(calls_.size(), hash_)) {
    is_loop_segment_ = *is_loop;
    return true;
  }
  if (reached_planned_cut() && plan_) {
    remember_cut(calls_, hash_, plan_->period);
    return true;
  }
  schedule_check();
  return false;
}

bool CallLog::reached_planned_cut() {
  const size_t n = calls_.size();
  if (!plan_ && n >= next_search_) {
    auto& p = part<CutHistory>();
    const std::lock_guard<std::mutex> guard(p.mutex);
    plan_ = find_loop(calls_, p.iterations);
    if (plan_ && n < kUnrolledLengths * loop_length &&
        p.unrolled.count(last_iteration_key(calls_, plan_->period)) != 0) {
      plan_.reset();
    }
    next_search_ = n + n / 2;
  }
  if (!plan_ || n < plan_->position) {
    return false;
  }
  for (size_t i = n - plan_->period; i < n; ++i) {
    if (calls_[i].signature != calls_[i - plan_->period].signature) {
      plan_.reset(); // the loop has ended
      return false;
    }
  }
  return true;
}

void CallLog::schedule_check() {
  auto& p = part<CutHistory>();
  const std::lock_guard<std::mutex> guard(p.mutex);
  const auto next = p.by_length.upper_bound(calls_.size());
  size_t next_check = next == p.by_length.end() ? kNever : next->first;
  next_check = std::min(next_check, plan_ ? plan_->position : next_search_);
  next_check_.store(next_check, std::memory_order_relaxed);
}

void note_unrolled(const Graph& graph) {
  std::vector<uint64_t> signatures;
  for (const auto* call : graph.calls) {
    if (const auto signature = call->spec().signature; signature != 0) {
      signatures.push_back(signature);
    }
  }
  const auto loops = find_loops(signatures);
  auto& p = part<CutHistory>();
  const std::lock_guard<std::mutex> guard(p.mutex);
  if (p.unrolled.size() > kMaxSegments) {
    p.unrolled.clear();
  }
  for (const auto& loop : loops) {
    p.unrolled.insert(
        iteration_key(c10::ArrayRef<uint64_t>(signatures).slice(loop.begin, loop.period)));
  }
}

bool cuts_loops() {
  return loop_length != 0;
}

void set_loop_length(int64_t calls) {
  TORCH_CHECK_VALUE(calls >= 0, "the loop length is a number of calls, or 0 for none; got ", calls);
  loop_length = static_cast<size_t>(calls);
}

} // namespace ftm
