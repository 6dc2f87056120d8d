#include "run/cut.h"

#include "graph/location.h"
#include "process/capturing.h"
#include "process/counters.h"
#include "process/strict.h"
#include "run/first_run.h"
#include "run/last_step.h"
#include "run/launcher.h"
#include "run/launches.h"
#include "run/program.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <unordered_map>

namespace ftm {
namespace {

std::atomic<int64_t> trace_limit{20000};

struct Cut {
  JobPtr job;
  ProgramPtr program; // null: to be built from `trace`
  Trace trace;
  Hash128 hash;
  std::vector<Value> settled; // the old graph, to be freed without the lock
};

// Jobs whose compilation the user interrupted. They keep their place in the order of runs, and are
// compiled again when somebody next asks for a result.
struct Suspended {
  std::mutex mutex; // taken alone
  std::deque<Cut> cuts;
};

Suspended& suspended() {
  static auto* instance = new Suspended;
  return *instance;
}

// Under the recorder's lock: takes up all that is pending in the trace. The variables get the values that the job
// will compute.
Cut take_pending(PendingTrace& pending) {
  Cut cut;
  std::vector<VariableData*> variables;
  std::vector<Value> results;
  std::vector<size_t> result_of; // for each variable
  std::unordered_map<const torch::lazy::Node*, c10::SmallVector<size_t, 1>> seen;
  for (auto* variable = pending.first; variable != nullptr; variable = variable->next) {
    const Value& value = variable->ir_value;
    auto& candidates = seen[value.node.get()];
    const auto same =
        std::find_if(candidates.begin(), candidates.end(), [&](size_t i) { return results[i].index == value.index; });
    if (same == candidates.end()) {
      candidates.push_back(results.size());
      result_of.push_back(results.size());
      results.push_back(value);
    } else {
      result_of.push_back(*same);
    }
    variables.push_back(variable);
  }
  if (variables.empty()) {
    return cut;
  }
  auto graph = collect_graph(results);
  cut.hash = graph.hash;
  cut.program = find_program(graph.hash, graph);
  if (!cut.program) {
    cut.trace = make_trace(graph);
  }
  auto job = std::make_shared<Job>();
  std::unordered_map<const Buffer*, int32_t> input_of;
  for (const auto* parameter : graph.parameters) {
    input_of.emplace(parameter->buffer().get(), static_cast<int32_t>(job->inputs.size()));
    const auto itemsize = static_cast<int64_t>(c10::elementSize(parameter->type(0).dtype));
    job->inputs.emplace_back(parameter->buffer(), parameter->offset() * itemsize);
  }
  job->before.resize(results.size());
  for (size_t i = 0; i < variables.size(); ++i) {
    auto& before = job->before[result_of[i]];
    const auto input = input_of.find(variables[i]->before.get());
    if (input != input_of.end()) {
      before.input = input->second;
    } else {
      before.other = variables[i]->before;
    }
  }
  std::vector<Value> values;
  for (const auto& result : results) {
    const auto& type = type_of(result);
    job->outputs.push_back(std::make_shared<Buffer>(type.dtype, type.sizes));
    values.push_back(data_value(job->outputs.back(), type));
  }
  job->scalars = std::move(graph.scalars);
  for (size_t i = 0; i < graph.calls.size(); ++i) {
    if (const auto& line = graph.calls[i]->line) {
      job->origin.recorded_at.emplace_back(i, line);
    }
  }
  enqueue(job); // may throw: nothing is changed yet
  for (size_t i = 0; i < variables.size(); ++i) {
    cut.settled.push_back(settle(*variables[i], values[result_of[i]]));
  }
  cut.settled.insert(
      cut.settled.end(), std::make_move_iterator(results.begin()), std::make_move_iterator(results.end()));
  cut.job = std::move(job);
  return cut;
}

// Whatever is thrown on the way from a job's place in the order of runs to its start, the job must not be waited for in
// vain: it is completed with that error.
template <typename Start>
void start_or_abandon(const JobPtr& job, Start start) {
  const auto abandon_with = [&](const std::exception& error) {
    const auto failure = failure_from(error, "(while a program was launched on device ftm)");
    failure->seen = true; // it is thrown on
    abandon(job, failure);
  };
  try {
    start();
  } catch (const std::exception& error) {
    abandon_with(error);
    throw;
  } catch (...) {
    abandon_with(std::runtime_error("the launch was ended by an exception of an unknown type"));
    throw;
  }
}

// Of each call, where all are noted: what the compiler's explanations name.
std::vector<std::string> noted_lines(const Cut& cut) {
  return notes_all_locations() ? cut.job->origin.lines(cut.trace.calls.size()) : std::vector<std::string>();
}

void build_and_start(Cut cut) {
  Built built;
  start_or_abandon(cut.job, [&] { built = build_program(cut.hash, cut.trace, noted_lines(cut)); });
  if (built.interrupt) {
    auto& s = suspended();
    {
      std::lock_guard<std::mutex> guard(s.mutex);
      s.cuts.push_back(std::move(cut));
    }
    std::rethrow_exception(built.interrupt);
  }
  start_or_abandon(cut.job, [&] { start_observed(cut.job, built.program); });
  if (!built.failure.empty() && !is_strict()) {
    TORCH_WARN("a program could not be compiled and runs op by op on the CPU (slow, but right): ", built.failure);
  }
}

void resume_suspended() {
  auto& s = suspended();
  while (true) {
    Cut cut;
    {
      std::lock_guard<std::mutex> guard(s.mutex);
      if (s.cuts.empty()) {
        return;
      }
      cut = std::move(s.cuts.front());
      s.cuts.pop_front();
    }
    build_and_start(std::move(cut));
  }
}

} // namespace

void launch(PendingTrace& pending, bool observed) {
  resume_suspended();
  PythonLine line = python_line(pending.owner);
  static auto& syncs = counter("syncs");
  static auto& hits = counter("cache_hits_memory");
  Cut cut;
  {
    const RecorderLock lock(recorder_mutex());
    if (pending.first != nullptr) {
      check_launch();
    }
    note_launch(pending, observed);
    cut = take_pending(pending);
    pending.calls = 0;
    pending.log.clear();
    if (cut.job) {
      count_launch(cut.hash);
    }
  }
  cut.settled.clear();
  if (!cut.job) {
    return;
  }
  syncs.fetch_add(1);
  cut.job->origin.launched_at = std::move(line);
  if (cut.program) {
    hits.fetch_add(1);
    start_or_abandon(cut.job, [&] { start_observed(cut.job, cut.program); });
    return;
  }
  build_and_start(std::move(cut));
}

namespace {

// Launches what threads that have ended left behind.
void launch_left() {
  auto left = take_left_traces();
  for (size_t i = 0; i < left.size(); ++i) {
    try {
      launch(*left[i], /*observed=*/false);
    } catch (...) {
      for (; i < left.size(); ++i) {
        leave_trace(*left[i]);
      }
      throw;
    }
    leave_trace(*left[i]);
  }
}

// A trace of another thread in which one of these is pending; null if there is none. Under the recorder's lock.
PendingTrace* pending_elsewhere(c10::ArrayRef<const at::TensorImpl*> tensors) {
  for (const auto* tensor : tensors) {
    auto* trace = tensor->numel() == 0 ? nullptr : variable_of(*tensor).trace();
    if (trace != nullptr && trace != &pending_trace()) {
      return trace;
    }
  }
  return nullptr;
}

} // namespace

void sync(bool wait) {
  launch(pending_trace(), /*observed=*/false);
  launch_left();
  if (wait) {
    wait_for_all();
  }
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
    lock.unlock();
    launch(*trace, /*observed=*/true);
    lock.lock();
  }
  BufferPtr buffer = static_cast<const DataNode&>(trace_node(variable.value())).buffer();
  lock.unlock();
  resume_suspended();
  wait_for(buffer);
  return buffer;
}

RecorderLock lock_to_read(c10::ArrayRef<const at::TensorImpl*> tensors) {
  RecorderLock lock(recorder_mutex());
  while (auto* trace = capturing ? nullptr : pending_elsewhere(tensors)) {
    lock.unlock();
    launch(*trace, /*observed=*/false);
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

void cut_if_long() {
  const int64_t limit = trace_limit.load(std::memory_order_relaxed);
  if (limit == 0 || capturing) {
    return;
  }
  auto& pending = pending_trace();
  bool cuts = pending.calls.load(std::memory_order_relaxed) >= limit;
  if (!cuts && pending.log.due()) {
    const RecorderLock lock(recorder_mutex());
    cuts = pending.log.cuts_here();
  }
  if (cuts) {
    launch(pending, /*observed=*/false);
  }
}

void set_trace_limit(int64_t nodes) {
  TORCH_CHECK_VALUE(nodes >= 0, "the trace limit is a number of nodes, or 0 for none; got ", nodes);
  trace_limit = nodes;
}

} // namespace ftm
