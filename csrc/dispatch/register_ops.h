// Decides which ops are recorded, and which run ATen's composite kernels.
#pragma once

namespace ftm {

// Registers the recording kernel for every op that reaches a backend and has no kernel of the
// device yet. Call it once.
void register_recorded_ops();

// Does the same for ops whose traits replace their composite kernels. Call it after
// set_op_traits.
void register_annotated_ops();

} // namespace ftm
