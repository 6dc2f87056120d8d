// The device in torch.profiler and torch.autograd.profiler: each program run is one event on its
// timeline.
#pragma once

namespace ftm {

// Registers the profiler. Call it once.
void register_profiler();

} // namespace ftm
