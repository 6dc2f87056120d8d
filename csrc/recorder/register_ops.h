// Which ops are recorded, and which are left to ATen's kernels that are made of other ops.
#pragma once

namespace ftm {

// Registers the recording kernel for every op that reaches a backend and has no kernel of its own.
void register_recorded_ops();

} // namespace ftm
