#include "torch/profile_events.h"

#include "graph/source_location.h"
#include "sync/cut_trace.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>

namespace ftm {
namespace {

std::atomic<bool> profiling{false};

constexpr size_t kMostOps = 6; // in a kernel's name

// "aten::_softmax_backward_data" becomes "softmax_backward_data", "aten::add.Tensor" "add".
std::string short_name(const std::string& op) {
  auto name = op.substr(op.rfind(':') == std::string::npos ? 0 : op.rfind(':') + 1);
  name = name.substr(0, name.find('.'));
  for (const std::string prefix : {"native_", "cudnn_", "_"}) {
    if (name.rfind(prefix, 0) == 0 && name.size() > prefix.size()) {
      name = name.substr(prefix.size());
    }
  }
  return name;
}

// The calls of a trace that compute: all but views, which the compiler does not number.
std::vector<size_t> computing_calls(const Trace& trace) {
  std::vector<size_t> found;
  for (size_t i = 0; i < trace.calls.size(); ++i) {
    if (trace.calls[i].spec->kind != CallSpec::Kind::view) {
      found.push_back(i);
    }
  }
  return found;
}

// The names of one program's kernels in one run.
class KernelNames {
 public:
  KernelNames(const ProgramRun& run, size_t number)
      : run_(run), number_(number), trace_(run.program->trace()), calls_(computing_calls(trace_)) {}

  KernelEvent event(int32_t kernel) const {
    KernelEvent event;
    event.run = number_;
    event.kernel = kernel;
    const auto& all = run_.program->machine()->kernel_calls();
    std::vector<size_t> calls;
    if (static_cast<size_t>(kernel) < all.size()) {
      for (const int64_t op : all[kernel]) {
        if (static_cast<size_t>(op) < calls_.size()) {
          calls.push_back(calls_[op]);
        }
      }
    }
    if (!calls.empty()) {
      const auto& results = trace_.calls[calls[0]].spec->results;
      event.shape = results.empty() ? "" : type_text(results[0].type);
    }
    for (const size_t call : calls) { // the first one that has it is the costliest
      set_origin(event, call);
    }
    std::sort(calls.begin(), calls.end());
    event.ops = ops_text(calls);
    event.name = event.module + (event.module.empty() ? "" : " ") +
                 (event.ops.empty() ? "kernel_" + std::to_string(kernel) : event.ops) +
                 (event.is_backward ? " (backward)" : "");
    return event;
  }

 private:
  void set_origin(KernelEvent& event, size_t call) const {
    const auto origin = run_.origin.of_call(call);
    if (!origin) {
      return;
    }
    const CallOrigin& user = origin->forward ? *origin->forward : *origin;
    if (event.line.empty() && user.line) {
      event.line = *user.line;
      event.is_backward = origin->is_backward;
    }
    if (event.module.empty() && user.module) {
      event.module = *user.module;
      event.is_backward = origin->is_backward;
    }
    event.correlation = event.correlation != 0 ? event.correlation : origin->correlation;
    event.range = event.range != 0 ? event.range : origin->range;
  }

  std::string ops_text(const std::vector<size_t>& calls) const {
    std::vector<std::string> names;
    for (const size_t call : calls) {
      auto name = short_name(trace_.calls[call].spec->name);
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(std::move(name));
      }
    }
    std::string text;
    for (size_t i = 0; i < std::min(names.size(), kMostOps); ++i) {
      text += (i == 0 ? "" : "+") + names[i];
    }
    return text + (names.size() > kMostOps ? "+..." : "");
  }

  const ProgramRun& run_;
  size_t number_;
  const Trace& trace_;
  std::vector<size_t> calls_;
};

// Adds the kernels of a run. The k-th span of a call on each core is its k-th execution, as in
// loops.
void add_kernels(Profile& profile, size_t number) {
  const ProgramRun& run = profile.runs[number];
  if (run.spans.empty() || !run.program || run.program->machine() == nullptr) {
    return;
  }
  const KernelNames names(run, number);
  std::map<int32_t, KernelEvent> named;
  std::map<std::pair<int32_t, size_t>, size_t> by_execution; // (call, execution) to the event
  std::map<std::pair<int32_t, int32_t>, size_t> executions; // by (core, call)
  const size_t first = profile.kernels.size();
  for (const auto& span : run.spans) {
    if (span.call == FTM_BARRIER) {
      profile.cores.push_back({-1, span.core, span.begin, span.end});
      continue;
    }
    const size_t execution = executions[{span.core, span.call}]++;
    auto found = by_execution.find({span.call, execution});
    if (found == by_execution.end()) {
      auto name = named.find(span.call);
      if (name == named.end()) {
        name = named.emplace(span.call, names.event(span.call)).first;
      }
      found = by_execution.emplace(std::pair(span.call, execution), profile.kernels.size()).first;
      profile.kernels.push_back(name->second);
      profile.kernels.back().begin = span.begin;
    }
    auto& kernel = profile.kernels[found->second];
    kernel.begin = std::min(kernel.begin, span.begin);
    kernel.end = std::max(kernel.end, span.end);
    kernel.busy += span.end - span.begin - static_cast<int64_t>(span.wait);
    kernel.dma_bytes += span.dma_bytes;
    kernel.mm_flops += span.mm_flops;
    kernel.map_operations += span.map_operations;
    profile.cores.push_back({static_cast<int64_t>(found->second), span.core, span.begin, span.end});
  }
  // Give each moment to one kernel.
  std::vector<size_t> order;
  for (size_t i = first; i < profile.kernels.size(); ++i) {
    order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return profile.kernels[a].begin < profile.kernels[b].begin;
  });
  int64_t taken = run.begin;
  for (const size_t i : order) {
    auto& kernel = profile.kernels[i];
    kernel.elapsed = kernel.end - kernel.begin;
    kernel.begin = std::max(kernel.begin, taken);
    kernel.end = std::max(kernel.end, kernel.begin);
    taken = kernel.end;
  }
}

} // namespace

void start_profile() {
  TORCH_CHECK(!profiling.exchange(true), "a profile of device ftm is being recorded already");
  try {
    sync(/*wait=*/true);
  } catch (...) {
    profiling = false;
    throw;
  }
  note_all_origins(NoteReason::profiling, true);
  open_event_log();
  start_run_log();
}

Profile stop_profile() {
  std::exception_ptr failure;
  try {
    sync(/*wait=*/true);
  } catch (...) {
    failure = std::current_exception();
  }
  note_all_origins(NoteReason::profiling, false);
  Profile profile;
  profile.runs = stop_run_log();
  profile.log = close_event_log();
  profiling = false;
  if (failure) {
    std::rethrow_exception(failure);
  }
  for (size_t i = 0; i < profile.runs.size(); ++i) {
    add_kernels(profile, i);
  }
  return profile;
}

bool is_profiling() {
  return profiling;
}

} // namespace ftm
