#include "graph/pending_trace.h"

#include "graph/source_location.h"
#include "graph/recorder_lock.h"
#include "support/capture_mode.h"
#include "support/shutdown.h"
#include "support/runtime.h"

#include <c10/util/ThreadLocalDebugInfo.h>

#include <mutex>
#include <utility>

namespace ftm {
namespace {

uint64_t last_sequence = 0; // under the recorder's lock

// Traces of threads that have ended.
struct OrphanedTraces {
  std::mutex mutex; // taken alone
  std::vector<PendingTrace*> empty; // for reuse by new threads
  std::vector<PendingTrace*> pending; // with calls to launch
};

PendingTrace* new_trace() {
  auto& o = part<OrphanedTraces>();
  const std::lock_guard<std::mutex> guard(o.mutex);
  if (o.empty.empty()) {
    return new PendingTrace;
  }
  auto* trace = o.empty.back();
  o.empty.pop_back();
  return trace;
}

struct ThreadTrace {
  const RecordingThread thread;
  PendingTrace* const trace = new_trace();
  ThreadTrace() { trace->owner = this_thread(); }
  ~ThreadTrace() { release_trace(*trace); }
};

PendingTrace& own_trace() {
  thread_local ThreadTrace own;
  return *own.trace;
}

// PyTorch passes this to the threads that work for this one (autograd's).
struct InheritedTrace final : c10::DebugInfoBase {
  explicit InheritedTrace(PendingTrace& trace) : trace(trace) {}
  PendingTrace& trace;
};

constexpr std::string_view kName = "FTM_PENDING_TRACE";
constexpr c10::DebugInfoKind kKind(&kName);

} // namespace

PendingTrace& pending_trace() {
  if (auto* info = c10::ThreadLocalDebugInfo::get(kKind)) {
    return static_cast<InheritedTrace*>(info)->trace;
  }
  auto& own = own_trace();
  // Other users of this stack of states (the profiler) expect theirs on top when they pop it. So
  // push only when it is empty.
  if (c10::ThreadLocalDebugInfo::current() == nullptr) {
    c10::ThreadLocalDebugInfo::_push(kKind, std::make_shared<InheritedTrace>(own));
  }
  return own;
}

std::vector<PendingTrace*> take_orphaned_traces() {
  auto& o = part<OrphanedTraces>();
  const std::lock_guard<std::mutex> guard(o.mutex);
  return std::exchange(o.pending, {});
}

void release_trace(PendingTrace& trace) {
  bool empty = false;
  {
    const RecorderLock lock(recorder_mutex());
    empty = trace.first == nullptr;
    trace.step.ended = false;
  }
  auto& o = part<OrphanedTraces>();
  const std::lock_guard<std::mutex> guard(o.mutex);
  (empty ? o.empty : o.pending).push_back(&trace);
}

uint64_t next_call() {
  return last_sequence + 1;
}

Value add_call(
    torch::lazy::OpKind kind, CallSpecPtr spec, Operands values, c10::ArrayRef<uint64_t> scalars,
    PendingTrace& trace) {
  auto node = std::make_shared<CallNode>(kind, std::move(spec), ++last_sequence);
  if (!capturing) {
    trace.calls.store(trace.calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    trace.log.add(node->spec(), trace.variables);
  }
  if (notes_all_locations()) {
    node->origin = noted_origin();
  }
  node->values = std::move(values);
  node->scalars.append(scalars.begin(), scalars.end());
  return Value(NodePtr(std::move(node)), 0);
}

} // namespace ftm
