#include "run/last_step.h"

#include "graph/pending.h"

namespace ftm {

LastStep& last_step() {
  static auto* instance = new LastStep;
  return *instance;
}

void note_launch(bool observed) {
  auto& last = last_step();
  if (after_step.exchange(false) && observed && pending_length() > last.calls) {
    last.waits.insert(last.optimizer);
  }
  last.launched = true;
}

} // namespace ftm
