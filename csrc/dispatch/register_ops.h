// Which ops are recorded, and which are left to ATen's kernels that are made of other ops.
#pragma once

namespace ftm {

// Registers the recording kernel for every op that reaches a backend and has no kernel of its own.
void register_recorded_ops();

// The same for the ops whose records say that ATen's kernel which is made of other ops is to stand
// back; after the table of facts was set.
void register_ops_of_records();

} // namespace ftm
