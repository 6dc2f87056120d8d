// What a launch says of the optimizer step before it.
#pragma once

#include "graph/pending_trace.h"

namespace ftm {

// What is pending is about to be launched; `observed`: because somebody reads it. Under the
// recorder's lock.
void note_launch(PendingTrace& trace, bool observed);

} // namespace ftm
