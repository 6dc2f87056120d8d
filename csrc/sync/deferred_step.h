// Notes launches for the decision whether to defer an optimizer step's launch
// (sync/optimizer_step.h).
#pragma once

#include "graph/pending_trace.h"

namespace ftm {

// Notes that the trace is about to be launched; `observed` is whether a value is read. If calls
// followed a step and were then read, the optimizer's next step will be deferred. Called under the
// recorder's lock.
void note_launch(PendingTrace& trace, bool observed);

} // namespace ftm
