// torch::lazy's executor, whose entry points launch the pending trace (sync/cut_trace.h).
#pragma once

namespace ftm {

// Registers the executor. Call it once.
void register_lazy_executor();

} // namespace ftm
