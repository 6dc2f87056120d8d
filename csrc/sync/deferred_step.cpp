#include "sync/deferred_step.h"

namespace ftm {

void note_launch(PendingTrace& trace, bool observed) {
  auto& last = trace.step;
  if (last.ended.exchange(false) && observed && trace.calls > last.deferred_calls) {
    last.deferred_optimizers.insert(last.optimizer);
  }
  last.launched = true;
}

} // namespace ftm
