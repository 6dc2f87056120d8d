#include "graph/source_location.h"

#include "support/runtime.h"

#include <torch/csrc/autograd/function.h>

#include <atomic>
#include <functional>
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

// Forward calls whose backward pass may still come. A node has one slot, by its thread and sequence
// number, so nodes of a thread that follow each other have slots that follow each other. A later
// node replaces an earlier one in its slot: a training step has far fewer nodes.
struct ForwardCalls {
  struct Slot {
    uint64_t thread, sequence;
    CallOriginPtr origin; // null: no call
  };
  static constexpr size_t kSlots = 1 << 16;

  std::mutex mutex; // taken alone
  std::vector<Slot> slots;

  Slot& slot(uint64_t thread, uint64_t sequence) {
    slots.resize(kSlots);
    return slots[(std::hash<uint64_t>()(thread * 0x9E3779B97F4A7C15) + sequence) % kSlots];
  }
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
    part<ForwardCalls>().slots.clear();
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
  if (!own.modules.empty() && !own.modules.back()->empty()) {
    origin.module = own.modules.back();
  } else if (const auto node = torch::autograd::get_current_node()) {
    origin.is_backward = true;
    origin.forward = find_forward(node->thread_id(), node->sequence_nr());
  }
  if (!origin.forward) {
    origin.line = python_line(requester);
  }
  origin.correlation = own.correlations.empty() ? 0 : own.correlations.back();
  origin.range = own.ranges.empty() ? 0 : own.ranges.back();
  return origin;
}

void note_forward(uint64_t thread, uint64_t sequence, const CallOriginPtr& origin) {
  auto& calls = part<ForwardCalls>();
  const std::lock_guard<std::mutex> guard(calls.mutex);
  auto& slot = calls.slot(thread, sequence);
  // Later calls without a node of their own (num_batches_tracked += 1) find the same number.
  if (!slot.origin || slot.thread != thread || slot.sequence != sequence) {
    slot = {thread, sequence, origin};
  }
}

CallOriginPtr find_forward(uint64_t thread, uint64_t sequence) {
  auto& calls = part<ForwardCalls>();
  const std::lock_guard<std::mutex> guard(calls.mutex);
  const auto& slot = calls.slot(thread, sequence);
  return slot.thread == thread && slot.sequence == sequence ? slot.origin : nullptr;
}

} // namespace ftm
