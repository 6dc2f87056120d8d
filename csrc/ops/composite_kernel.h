// ATen's kernels that compute an op by other ops, and so serve any device.
#pragma once

#include "ops/schema_annotations.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>

namespace ftm {

// Where ATen keeps one that serves a recorded op; `use`: what the op's record says of it.
std::optional<c10::DispatchKey> composite_kernel(const c10::OperatorHandle& op, CompositeUse use);

// "aten::mm", "aten::add.Tensor"
std::string full_name(const c10::OperatorName& name);

} // namespace ftm
