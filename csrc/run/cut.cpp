#include "run/cut.h"

#include "graph/location.h"
#include "process/capturing.h"
#include "process/counters.h"
#include "process/ending.h"
#include "process/strict.h"
#include "run/first_run.h"
#include "run/last_step.h"
#include "run/launcher.h"
#include "run/launches.h"
#include "run/program.h"
#include "run/taken.h"
#include "run/varying.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <unordered_set>

namespace ftm {
namespace {

std::atomic<int64_t> trace_limit{20000};

// Jobs whose compilation the user interrupted. They keep their place in the order of runs, and are
// compiled again when somebody next asks for a result, and so are those behind them.
struct Suspended {
  std::mutex mutex; // taken alone
  std::vector<Cut> cuts;
};

Suspended& suspended() {
  static auto* instance = new Suspended;
  return *instance;
}

// Of each call, where all are noted: what the compiler's explanations name.
std::vector<std::string> noted_lines(const Cut& cut) {
  return notes_all_locations() ? cut.job->origin.lines(cut.trace.calls.size()) : std::vector<std::string>();
}

using Cuts = c10::ArrayRef<Cut>;

// These jobs are not run: each is completed with that error, so that nobody waits for it in vain.
void abandon_all(Cuts cuts, const std::exception& error) {
  const auto failure = failure_from(error, "(while a program was launched on device ftm)");
  failure->seen = true; // it is thrown on
  for (const auto& cut : cuts) {
    abandon(cut.job, failure);
  }
}

// Runs `step` for the first of these; whatever it throws, none of them is waited for in vain.
template <typename Step>
void run_or_abandon(Cuts cuts, Step step) {
  try {
    step(cuts.front());
  } catch (const std::exception& error) {
    abandon_all(cuts, error);
    throw;
  } catch (...) {
    abandon_all(cuts, std::runtime_error("the launch was ended by an exception of an unknown type"));
    throw;
  }
}

// Those from `first` on keep their place in the order of runs, and are started when somebody next asks for a result.
void suspend(std::vector<Cut>& cuts, size_t first) {
  auto& s = suspended();
  const std::lock_guard<std::mutex> guard(s.mutex);
  s.cuts.insert(
      s.cuts.begin(), std::make_move_iterator(cuts.begin() + static_cast<std::ptrdiff_t>(first)),
      std::make_move_iterator(cuts.end()));
}

CompileRequest request_for(const Cut& cut) {
  auto likely = cut.any_size
                    ? any_sizes(cut.trace.parameters)
                    : Likely{varying_dimensions(cut.trace.parameters, cut.job->inputs, cut.trains), cut.trains};
  return {{}, noted_lines(cut), std::move(likely), cut.whole};
}

// A tensor that an optimizer's first step fills, which one program does for all.
bool is_fill(const Cut& cut) {
  return cut.any_size && cut.job->inputs.empty();
}

// The results of a program for many sizes are of other sizes when it runs again, but an optimizer's state.
void note_varying(const Cut& cut, const Program& program) {
  if (is_fill(cut)) {
    return;
  }
  const auto& job = *cut.job;
  const auto& varies = program.varies();
  for (size_t i = 0; i < std::min(varies.size(), job.outputs.size()); ++i) {
    job.outputs[i]->set_varies(varying_outside(varies[i], program.trace().result_types[i], *job.outputs[i]));
  }
}

// Whether the results of a program that is to be built have fixed sizes, whatever it becomes.
bool is_of_fixed_sizes(const Cut& cut, const CompileRequest& request) {
  return is_fill(cut) || (!cut.any_size && cut.trains && request.likely.varies.empty());
}

// Tells the compiler of those that are to be built, if there are several, as far as what it is told of one does not hang on how
// another one is built; for each what it was told, or nothing.
std::vector<CompileRequest> announced(Cuts cuts) {
  std::vector<CompileRequest> requests(cuts.size());
  std::unordered_set<Hash128, Hash128Hasher> wanted;
  for (const auto& cut : cuts) {
    if (!cut.program) {
      wanted.insert(cut.hash);
    }
  }
  if (wanted.size() < 2 || !uses_machine()) {
    return requests;
  }
  std::vector<CompileRequest> told;
  std::unordered_set<const Buffer*> open; // results of which it is not known yet whether their sizes vary
  for (size_t i = 0; i < cuts.size(); ++i) {
    const auto& cut = cuts[i];
    const auto is_open = [&](const Input& input) { return open.count(input.buffer.get()) != 0; };
    if (cut.program) {
      note_varying(cut, *cut.program);
      continue;
    }
    const bool hangs = !cut.any_size && std::any_of(cut.job->inputs.begin(), cut.job->inputs.end(), is_open);
    auto request = hangs ? CompileRequest() : request_for(cut);
    if (hangs || !is_of_fixed_sizes(cut, request)) {
      for (const auto& output : cut.job->outputs) {
        open.insert(output.get());
      }
    }
    if (!hangs && wanted.erase(cut.hash) != 0) {
      request.trace_text = trace_text(cut.trace);
      told.push_back(request);
      requests[i] = std::move(request);
    }
  }
  announce_to_python(told);
  return requests;
}

Built build(const Cut& cut, CompileRequest announced) {
  return build_program(cut.hash, cut.trace, announced.trace_text.empty() ? request_for(cut) : std::move(announced));
}

// Builds what has to be built, and starts each job when it is: it runs while the next one is built.
void build_and_start(std::vector<Cut> cuts) {
  static auto& hits = counter("cache_hits_memory");
  auto requests = announced(cuts);
  for (size_t i = 0; i < cuts.size(); ++i) {
    const Cuts rest = Cuts(cuts).slice(i);
    Built built{rest.front().program, {}, {}};
    if (built.program) {
      hits.fetch_add(1);
    } else {
      run_or_abandon(rest, [&](const Cut& cut) { built = build(cut, std::move(requests[i])); });
    }
    if (built.interrupt) {
      suspend(cuts, i);
      std::rethrow_exception(built.interrupt);
    }
    if (built.program) {
      note_varying(cuts[i], *built.program);
    }
    try {
      run_or_abandon(rest.slice(0, 1), [&](const Cut& cut) { start_observed(cut.job, built.program); });
    } catch (...) {
      suspend(cuts, i + 1);
      throw;
    }
    cuts[i] = Cut(); // the job's buffers are freed when it ends, and not when the last one is built
    if (!built.failure.empty() && !is_strict()) {
      TORCH_WARN("a program could not be compiled and runs op by op on the CPU (slow, but right): ", built.failure);
    }
  }
}

void resume_suspended() {
  auto& s = suspended();
  std::vector<Cut> cuts;
  {
    const std::lock_guard<std::mutex> guard(s.mutex);
    cuts.swap(s.cuts);
  }
  build_and_start(std::move(cuts));
}

} // namespace

void launch(PendingTrace& pending, Why why) {
  resume_suspended();
  PythonLine line = python_line(pending.owner);
  static auto& syncs = counter("syncs");
  Taken taken;
  {
    const RecorderLock lock(recorder_mutex());
    if (pending.first != nullptr) {
      check_launch();
    }
    note_launch(pending, why == Why::observed);
    taken = take_pending(pending);
    if (why != Why::length) {
      pending.whole = 0;
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
  build_and_start(std::move(taken.cuts));
}

namespace {

// Launches what threads that have ended left behind.
void launch_left() {
  auto left = take_left_traces();
  for (size_t i = 0; i < left.size(); ++i) {
    try {
      launch(*left[i], Why::ended);
    } catch (...) {
      for (; i < left.size(); ++i) {
        leave_trace(*left[i]);
      }
      throw;
    }
    leave_trace(*left[i]);
  }
}

// A trace that is not the thread's own in which one of these is pending; null if there is none. Under the recorder's lock.
PendingTrace* pending_elsewhere(c10::ArrayRef<const at::TensorImpl*> tensors, const PendingTrace& own) {
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
  launch(pending_trace(), Why::ended);
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
    launch(*trace, Why::observed);
    lock.lock();
  }
  BufferPtr buffer = static_cast<const DataNode&>(trace_node(variable.value())).buffer();
  lock.unlock();
  resume_suspended();
  wait_for(buffer);
  return buffer;
}

RecorderLock lock_to_read(c10::ArrayRef<const at::TensorImpl*> tensors, PendingTrace& own) {
  rest_if_ending();
  RecorderLock lock(recorder_mutex());
  while (auto* trace = capturing ? nullptr : pending_elsewhere(tensors, own)) {
    lock.unlock();
    launch(*trace, Why::ended);
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
  if (!cuts && own.log.due()) {
    const RecorderLock lock(recorder_mutex());
    cuts = own.log.cuts_here();
  }
  if (cuts) {
    launch(own, Why::length);
  }
}

void set_trace_limit(int64_t nodes) {
  TORCH_CHECK_VALUE(nodes >= 0, "the trace limit is a number of nodes, or 0 for none; got ", nodes);
  trace_limit = nodes;
}

} // namespace ftm
