#include "sync/optimizer_step.h"

#include "sync/cut_trace.h"

#include <algorithm>

namespace ftm {

namespace {

constexpr uint64_t kOpen = UINT64_MAX; // end of a step that is not over

uint64_t steps = 0; // number of the last step in any trace; guarded by the recorder's lock

} // namespace

void begin_step() {
  auto& trace = pending_trace();
  const RecorderLock lock(recorder_mutex());
  trace.step.recorded = {next_call(), kOpen};
}

void end_step(uint64_t optimizer) {
  auto& trace = pending_trace();
  auto& last = trace.step;
  RecorderLock lock(recorder_mutex());
  // A step that was deferred and not launched until now had no metrics: defer no more.
  const bool is_deferred = last.ended.exchange(false) && !last.launched
                               ? false
                               : last.deferred_optimizers.count(optimizer) != 0;
  last.recorded.end = std::min(last.recorded.end, next_call());
  last.optimizer = optimizer;
  last.launched = !is_deferred;
  last.deferred_calls = is_deferred ? trace.calls.load() : 0;
  last.number = ++steps;
  for (auto* variable = trace.first; variable != nullptr; variable = variable->next) {
    if (variable->old_buffer) {
      variable->step = last.number;
    }
  }
  lock.unlock();
  if (!is_deferred) {
    sync(/*wait=*/false);
  }
  last.ended = true;
}

void launch_deferred_step(c10::ArrayRef<const at::TensorImpl*> operands) {
  auto& last = pending_trace().step;
  RecorderLock lock(recorder_mutex());
  const bool begins = std::any_of(
      operands.begin(), operands.end(),
      [&](const at::TensorImpl* tensor) { return variable_of(*tensor).step() == last.number; });
  if (!begins || !last.ended.exchange(false) || last.launched) {
    return;
  }
  last.deferred_optimizers.erase(last.optimizer); // deferring was useless: no metrics were read
  last.launched = true;
  lock.unlock();
  sync(/*wait=*/false);
}

} // namespace ftm
