#include "run/step_end.h"

#include "recorder/record.h"
#include "run/cut.h"

#include <algorithm>
#include <unordered_set>

namespace ftm {
namespace {

// Under the recorder's lock.
struct LastStep {
  uint64_t number = 0;
  uint64_t optimizer = 0;
  bool launched = true;
  int64_t calls = 0; // that were pending when it ended and are so still
  std::unordered_set<uint64_t> waits; // optimizers whose last step was followed by metrics
};

LastStep& last_step() {
  static auto* instance = new LastStep;
  return *instance;
}

} // namespace

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

void note_launch(bool observed) {
  auto& last = last_step();
  if (after_step.exchange(false) && observed && pending_length() > last.calls) {
    last.waits.insert(last.optimizer);
  }
  last.launched = true;
}

} // namespace ftm
