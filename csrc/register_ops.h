// Which ops are recorded.
#pragma once

namespace ftm {

// Registers the recording kernel for every op that reaches a backend and has no kernel of its own.
void register_recorded_ops();

} // namespace ftm
