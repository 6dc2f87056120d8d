#include "run/step_end.h"

#include "graph/pending.h"
#include "run/cut.h"

#include <algorithm>

namespace ftm {

void end_step(uint64_t optimizer) {
  auto& last = last_step();
  RecorderLock lock(recorder_mutex());
  const bool waits = after_step.exchange(false) && !last.launched ? false : last.waits.count(optimizer) != 0;
  last.optimizer = optimizer;
  last.launched = !waits;
  last.calls = waits ? pending_length() : 0;
  ++last.number;
  for (auto* variable = first_pending(); variable != nullptr; variable = variable->next) {
    if (variable->before) {
      variable->step = last.number;
    }
  }
  lock.unlock();
  if (!waits) {
    sync(/*wait=*/false);
  }
  after_step = true;
}

void look_for_next_step(c10::ArrayRef<const at::TensorImpl*> operands) {
  auto& last = last_step();
  RecorderLock lock(recorder_mutex());
  const bool begins = std::any_of(operands.begin(), operands.end(), [&](const at::TensorImpl* tensor) {
    return variable_of(*tensor).step() == last.number;
  });
  if (!begins || !after_step.exchange(false) || last.launched) {
    return;
  }
  last.waits.erase(last.optimizer); // in vain: there were no metrics
  last.launched = true;
  lock.unlock();
  sync(/*wait=*/false);
}

} // namespace ftm
