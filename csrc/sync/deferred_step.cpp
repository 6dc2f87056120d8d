#include "sync/deferred_step.h"

namespace ftm {

void note_launch(PendingTrace& trace, bool observed) {
  auto& last = trace.step;
  if (last.over.exchange(false) && observed && trace.calls > last.calls) {
    last.waits.insert(last.optimizer);
  }
  last.launched = true;
}

} // namespace ftm
