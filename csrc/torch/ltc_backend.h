// The device's backend for torch::lazy, for users of LTC's entry points: metrics, debugging,
// mark_step.
#pragma once

namespace ftm {

// Registers the backend. Call it once.
void register_lazy_backend();

} // namespace ftm
