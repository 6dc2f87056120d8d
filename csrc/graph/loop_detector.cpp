#include "graph/loop_detector.h"

#include "graph/loop_boundaries.h"

#include <c10/util/Exception.h>

#include <limits>
#include <map>
#include <mutex>

namespace ftm {
namespace {

constexpr size_t kPiece = 256; // calls that make a piece of a loop worth a program
constexpr size_t kRememberedPieces = 512; // pieces
constexpr size_t kUnrolledLengths =
    8; // times the loop length: a loop that is unrolled is cut from then on
constexpr size_t kNever = std::numeric_limits<size_t>::max();

std::atomic<size_t> loop_length{700};

// What was cut, in any trace of this process.
struct Pieces {
  std::mutex mutex; // taken alone, or under the recorder's
  // By their length and sequence_hash, the calls between two cuts: whether they are iterations of a
  // loop and nothing else.
  std::map<size_t, std::unordered_map<uint64_t, bool>> by_length;
  std::unordered_set<uint64_t> iterations; // of loops, from where they are cut
  std::unordered_set<uint64_t>
      unrolled; // iteration_keys of loops that are cut when they are launched
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
};

Pieces& pieces() {
  static auto* instance = new Pieces;
  return *instance;
}

// Nothing: these calls are no piece; else whether they are iterations of a loop and nothing else.
std::optional<bool> find_piece(size_t length, uint64_t hash) {
  auto& p = pieces();
  const std::lock_guard<std::mutex> guard(p.mutex);
  const auto found = p.by_length.find(length);
  if (found == p.by_length.end()) {
    return std::nullopt;
  }
  const auto piece = found->second.find(hash);
  return piece == found->second.end() ? std::nullopt : std::make_optional(piece->second);
}

// These calls, of which the last `period` are an iteration, are cut off; so will be as many
// iterations as make a piece.
void remember(c10::ArrayRef<LoggedCall> calls, uint64_t hash, size_t period) {
  const auto iteration = calls.slice(calls.size() - period, period);
  uint64_t piece = 0;
  size_t length = 0;
  while (length < kPiece) {
    for (const auto call : iteration) {
      piece = extended(piece, call);
    }
    length += period;
  }
  auto& p = pieces();
  const std::lock_guard<std::mutex> guard(p.mutex);
  if (p.count + 2 > kRememberedPieces) {
    p.clear();
  }
  p.add(calls.size(), hash, false);
  p.add(length, piece, true);
  p.iterations.insert(sequence_hash(iteration));
}

uint64_t key_of_last(c10::ArrayRef<LoggedCall> calls, size_t period) {
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
  is_loop_piece_ = false;
  look_at_ = loop_length == 0 ? kNever : loop_length.load();
  length_.store(0, std::memory_order_relaxed);
  find_stop();
}

bool CallLog::cuts_here() {
  for (; hashed_ < calls_.size(); ++hashed_) {
    hash_ = extended(hash_, calls_[hashed_]);
  }
  if (const auto piece = find_piece(calls_.size(), hash_)) {
    is_loop_piece_ = *piece;
    return true;
  }
  if (is_planned() && plan_) {
    remember(calls_, hash_, plan_->period);
    return true;
  }
  find_stop();
  return false;
}

bool CallLog::is_planned() {
  const size_t n = calls_.size();
  if (!plan_ && n >= look_at_) {
    auto& p = pieces();
    const std::lock_guard<std::mutex> guard(p.mutex);
    plan_ = find_loop(calls_, p.iterations);
    if (plan_ && n < kUnrolledLengths * loop_length &&
        p.unrolled.count(key_of_last(calls_, plan_->period)) != 0) {
      plan_.reset();
    }
    look_at_ = n + n / 2;
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

void CallLog::find_stop() {
  auto& p = pieces();
  const std::lock_guard<std::mutex> guard(p.mutex);
  const auto next = p.by_length.upper_bound(calls_.size());
  size_t stop = next == p.by_length.end() ? kNever : next->first;
  stop = std::min(stop, plan_ ? plan_->position : look_at_);
  stop_.store(stop, std::memory_order_relaxed);
}

void note_unrolled(const Graph& graph) {
  std::vector<uint64_t> signatures;
  for (const auto* call : graph.calls) {
    if (const auto signature = call->spec().signature; signature != 0) {
      signatures.push_back(signature);
    }
  }
  const auto loops = find_loops(signatures);
  auto& p = pieces();
  const std::lock_guard<std::mutex> guard(p.mutex);
  if (p.unrolled.size() > kRememberedPieces) {
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
  auto& p = pieces();
  const std::lock_guard<std::mutex> guard(p.mutex);
  p.clear();
}

} // namespace ftm
