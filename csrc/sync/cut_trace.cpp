#include "sync/cut_trace.h"

#include "support/capture_mode.h"
#include "support/counters.h"
#include "support/event_log.h"
#include "support/shutdown.h"
#include "compile/compile_threads.h"
#include "sync/deferred_step.h"
#include "execute/launcher.h"
#include "execute/launch_count.h"
#include "sync/resident_views.h"
#include "partition/plan_launch.h"
#include "partition/whole_programs.h"

#include <atomic>
#include <optional>

namespace ftm {
namespace {

constexpr int64_t kManyCalls = 32; // of a model's trace; a single decision has fewer

std::atomic<int64_t> trace_limit{20000};

} // namespace

void launch(PendingTrace& pending, CutReason why) {
  check_not_forked();
  PythonLine line = python_line(pending.owner);
  static auto& syncs = counter("syncs");
  std::optional<LoggedScope> logged(std::in_place, HostEventKind::launch, "launch");
  if (logged->is_logged() && line) {
    logged->set_line(*line);
  }
  LaunchPlan plan;
  {
    const RecorderLock lock(recorder_mutex());
    if (pending.first != nullptr) {
      check_launch();
    }
    note_launch(pending, why == CutReason::observed);
    plan = plan_launch(pending);
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
    if (!plan.units.empty()) {
      count_launch(plan.hash);
    }
  }
  plan.old_graph.clear();
  logged.reset(); // compilation is another event
  if (plan.units.empty()) {
    return;
  }
  syncs.fetch_add(1);
  for (auto& unit : plan.units) {
    unit.job->origin.launched_at = line;
  }
  launch_units(std::move(plan.units), why == CutReason::observed);
  if (plan.whole && is_takeover_deterministic()) {
    set_whole_compiled(plan.whole->hash);
  } else if (plan.whole) {
    compile_whole(std::move(*plan.whole));
  }
}

namespace {

// Launches the traces of threads that have ended.
void launch_orphaned() {
  auto traces = take_orphaned_traces();
  for (size_t i = 0; i < traces.size(); ++i) {
    try {
      launch(*traces[i], CutReason::ended);
    } catch (...) {
      for (; i < traces.size(); ++i) {
        release_trace(*traces[i]);
      }
      throw;
    }
    release_trace(*traces[i]);
  }
}

// Returns a trace other than `own` in which one of these tensors is pending, or null. Called under
// the recorder's lock.
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
  launch_orphaned();
  if (wait) {
    wait_for_all();
  }
  warn_of_compile_failures();
}

BufferPtr observe(Variable& variable) {
  RecorderLock lock(recorder_mutex());
  if (!variable.value().node) {
    return nullptr;
  }
  // Repeats only if another thread records a newer value meanwhile.
  while (!trace_node(variable.value()).is_data) {
    auto* trace = variable.trace();
    TORCH_CHECK_NOT_IMPLEMENTED(!capturing && trace != nullptr, kNoContent);
    if (copy_resident_view(variable, lock)) {
      continue;
    }
    lock.unlock();
    launch(*trace, CutReason::observed);
    lock.lock();
  }
  BufferPtr buffer = static_cast<const DataNode&>(trace_node(variable.value())).buffer();
  lock.unlock();
  wait_for(buffer);
  warn_of_compile_failures();
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

Trace trace_of_pending(const std::vector<Value>& values) {
  const RecorderLock lock(recorder_mutex());
  std::vector<Value> results = values;
  if (results.empty()) {
    for (auto* variable = pending_trace().first; variable != nullptr; variable = variable->next) {
      results.push_back(variable->ir_value);
    }
  }
  return make_trace(collect_graph(results));
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

void set_trace_limit(int64_t nodes) {
  TORCH_CHECK_VALUE(nodes >= 0, "the trace limit is a number of nodes, or 0 for none; got ", nodes);
  trace_limit = nodes;
}

} // namespace ftm
