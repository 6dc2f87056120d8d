// The device `ftm` in PyTorch.
#pragma once

namespace ftm {

// Renames PrivateUse1 and registers the device's guard, hooks, allocators, profiler and torch::lazy
// backend. Call it once, at import.
void register_device();

} // namespace ftm
