#include "sync/cut_trace.h"

#include "support/capture_mode.h"
#include "support/counters.h"
#include "support/shutdown.h"
#include "compile/compile_queue.h"
#include "compile/build_units.h"
#include "execute/run_observer.h"
#include "sync/deferred_step.h"
#include "execute/launcher.h"
#include "execute/launch_control.h"
#include "program/program_table.h"
#include "sync/resident_views.h"
#include "partition/launch_plan.h"

#include <atomic>

namespace ftm {
namespace {

constexpr int64_t kManyCalls = 32; // a trace of a model, and not of one decision

std::atomic<int64_t> trace_limit{20000};
std::atomic<bool> compiles_at_launch{false};

// What nobody waits for is compiled while the program goes on.
void build(std::vector<LaunchUnit> cuts, CutReason why) {
  if (are_built(cuts) || !uses_machine() || is_observed() || compiles_at_launch) {
    build_now(std::move(cuts));
  } else if (why == CutReason::observed) {
    build_and_wait(std::move(cuts));
  } else {
    build_later(std::move(cuts));
  }
}

} // namespace

void launch(PendingTrace& pending, CutReason why) {
  check_not_forked();
  resume_building();
  PythonLine line = python_line(pending.owner);
  static auto& syncs = counter("syncs");
  LaunchPlan taken;
  {
    const RecorderLock lock(recorder_mutex());
    if (pending.first != nullptr) {
      check_launch();
    }
    note_launch(pending, why == CutReason::observed);
    taken = take_pending(pending);
    if (why != CutReason::length) {
      pending.trace_id = 0;
    }
    if (why != CutReason::observed || pending.calls >= kManyCalls) {
      pending.decisions = 0;
    }
    pending.calls = 0;
    pending.trains = false;
    pending.log.clear();
    pending.step.recorded = {};
    if (!taken.cuts.empty()) {
      count_launch(taken.hash);
    }
  }
  taken.settled.clear();
  if (taken.cuts.empty()) {
    return;
  }
  syncs.fetch_add(1);
  for (auto& cut : taken.cuts) {
    cut.job->origin.launched_at = line;
  }
  build(std::move(taken.cuts), why);
}

namespace {

// Launches what threads that have ended left behind.
void launch_left() {
  auto left = take_orphaned_traces();
  for (size_t i = 0; i < left.size(); ++i) {
    try {
      launch(*left[i], CutReason::ended);
    } catch (...) {
      for (; i < left.size(); ++i) {
        release_trace(*left[i]);
      }
      throw;
    }
    release_trace(*left[i]);
  }
}

// A trace that is not the thread's own in which one of these is pending; null if there is none.
// Under the recorder's lock.
PendingTrace* pending_elsewhere(
    c10::ArrayRef<const at::TensorImpl*> tensors, const PendingTrace& own) {
  for (const auto* tensor : tensors) {
    auto* trace = tensor->numel() == 0 ? nullptr : variable_of(*tensor).trace();
    if (trace != nullptr && trace != &own) {
      return trace;
    }
  }
  return nullptr;
}

} // namespace

void sync(bool wait) {
  launch(pending_trace(), CutReason::ended);
  launch_left();
  if (wait) {
    wait_for_all();
  }
  warn_of_op_by_op();
}

BufferPtr observe(Variable& variable) {
  RecorderLock lock(recorder_mutex());
  if (!variable.value().node) {
    return nullptr;
  }
  // More than once only if another thread records a newer value meanwhile.
  while (!trace_node(variable.value()).is_data) {
    auto* trace = variable.trace();
    TORCH_CHECK_NOT_IMPLEMENTED(!capturing && trace != nullptr, kNoContent);
    if (copy_row_in_memory(variable, lock)) {
      continue;
    }
    lock.unlock();
    launch(*trace, CutReason::observed);
    lock.lock();
  }
  BufferPtr buffer = static_cast<const DataNode&>(trace_node(variable.value())).buffer();
  lock.unlock();
  wait_for(buffer);
  warn_of_op_by_op();
  return buffer;
}

RecorderLock lock_to_read(c10::ArrayRef<const at::TensorImpl*> tensors, PendingTrace& own) {
  park_if_shutting_down();
  RecorderLock lock(recorder_mutex());
  while (auto* trace = capturing ? nullptr : pending_elsewhere(tensors, own)) {
    lock.unlock();
    launch(*trace, CutReason::ended);
    lock.lock();
  }
  return lock;
}

std::string pending_text(const std::vector<Value>& values) {
  const RecorderLock lock(recorder_mutex());
  std::vector<Value> results = values;
  if (results.empty()) {
    for (auto* variable = pending_trace().first; variable != nullptr; variable = variable->next) {
      results.push_back(variable->ir_value);
    }
  }
  return trace_text(make_trace(collect_graph(results)));
}

void cut_if_long(PendingTrace& own) {
  const int64_t limit = trace_limit.load(std::memory_order_relaxed);
  if (limit == 0 || capturing) {
    return;
  }
  bool cuts = own.calls.load(std::memory_order_relaxed) >= limit;
  if (!cuts && own.log.is_check_due()) {
    const RecorderLock lock(recorder_mutex());
    cuts = own.log.should_cut();
  }
  if (cuts) {
    launch(own, CutReason::length);
  }
}

void set_compile_at_launch(bool always) {
  compiles_at_launch = always;
}

void set_trace_limit(int64_t nodes) {
  TORCH_CHECK_VALUE(nodes >= 0, "the trace limit is a number of nodes, or 0 for none; got ", nodes);
  trace_limit = nodes;
}

} // namespace ftm
