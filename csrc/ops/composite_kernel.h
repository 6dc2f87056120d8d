// ATen's kernels that compute an op by other ops, and so serve any device.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>

namespace ftm {

// Where ATen keeps one for a recorded op.
std::optional<c10::DispatchKey> composite_kernel(const c10::OperatorHandle& op);

// Ops whose composite kernel serves no device but those that it names, or asks for something that a backend
// must bring. `name`: with the overload.
bool is_never_composite(const std::string& name);

// "aten::mm", "aten::add.Tensor"
std::string full_name(const c10::OperatorName& name);

} // namespace ftm
