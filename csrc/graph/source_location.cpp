#include "graph/source_location.h"

#include "support/runtime.h"

#include <atomic>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace ftm {
namespace {

std::atomic<uint8_t> reasons{0};

struct ThreadOrigin {
  CallOriginPtr noted;
  std::vector<std::shared_ptr<const std::string>> modules;
  std::vector<uint64_t> correlations, ranges;
};

ThreadOrigin& of_thread() {
  thread_local ThreadOrigin own;
  return own;
}

// Forward calls whose backward pass may still come. The oldest are dropped: a training step has
// far fewer.
constexpr size_t kMostForward = 1 << 18;

struct ForwardCalls {
  std::mutex mutex; // taken alone
  std::map<std::pair<uint64_t, uint64_t>, CallOriginPtr> by_node;
};

template <typename T>
void pop(std::vector<T>& stack) {
  if (!stack.empty()) { // profiling may begin inside of a range
    stack.pop_back();
  }
}

} // namespace

CallOriginPtr origin_of_line(const PythonLine& line) {
  if (!line) {
    return nullptr;
  }
  auto origin = std::make_shared<CallOrigin>();
  origin->line = line;
  return origin;
}

void note_all_origins(NoteReason reason, bool on) {
  const auto bit = static_cast<uint8_t>(reason);
  on ? reasons.fetch_or(bit) : reasons.fetch_and(static_cast<uint8_t>(~bit));
  if (!on) {
    const std::lock_guard<std::mutex> guard(part<ForwardCalls>().mutex);
    part<ForwardCalls>().by_node.clear();
  }
}

bool notes_all_locations() {
  return reasons.load(std::memory_order_relaxed) != 0;
}

void note_origin(CallOriginPtr origin) {
  of_thread().noted = std::move(origin);
}

const CallOriginPtr& noted_origin() {
  return of_thread().noted;
}

void push_module(const std::string& path) {
  of_thread().modules.push_back(std::make_shared<const std::string>(path));
}

void pop_module() {
  pop(of_thread().modules);
}

void push_correlation(uint64_t id) {
  of_thread().correlations.push_back(id);
}

void pop_correlation() {
  pop(of_thread().correlations);
}

void push_range(uint64_t id) {
  of_thread().ranges.push_back(id);
}

void pop_range() {
  pop(of_thread().ranges);
}

CallOrigin current_origin(ThreadIdent requester) {
  const auto& own = of_thread();
  CallOrigin origin;
  origin.line = python_line(requester);
  origin.module = own.modules.empty() ? nullptr : own.modules.back();
  origin.correlation = own.correlations.empty() ? 0 : own.correlations.back();
  origin.range = own.ranges.empty() ? 0 : own.ranges.back();
  return origin;
}

void note_forward(uint64_t thread, uint64_t sequence, const CallOriginPtr& origin) {
  auto& calls = part<ForwardCalls>();
  const std::lock_guard<std::mutex> guard(calls.mutex);
  // Later calls without a node of their own (num_batches_tracked += 1) find the same number.
  calls.by_node.try_emplace({thread, sequence}, origin);
  if (calls.by_node.size() > kMostForward) {
    calls.by_node.erase(calls.by_node.begin());
  }
}

CallOriginPtr find_forward(uint64_t thread, uint64_t sequence) {
  auto& calls = part<ForwardCalls>();
  const std::lock_guard<std::mutex> guard(calls.mutex);
  const auto found = calls.by_node.find({thread, sequence});
  return found == calls.by_node.end() ? nullptr : found->second;
}

} // namespace ftm
