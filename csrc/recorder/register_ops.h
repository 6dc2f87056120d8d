// Which ops are recorded, and which are left to ATen's kernels that are made of other ops.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace ftm {

// Registers the recording kernel for every op that reaches a backend and has no kernel of its own.
void register_recorded_ops();

// Where ATen keeps a kernel for a recorded op that computes it by other ops, and so serves any device.
std::optional<c10::DispatchKey> composite_kernel(const c10::OperatorHandle& op);

} // namespace ftm
