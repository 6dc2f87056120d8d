// ATen's composite kernels, which compute an op by other ops and so work on any device.
#pragma once

#include "ops/op_traits.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>

namespace ftm {

// Returns the dispatch key of a composite kernel that may run a recorded op, or nullopt. `use` is
// the op's trait.
std::optional<c10::DispatchKey> find_composite_kernel(
    const c10::OperatorHandle& op, CompositeUse use);

// Returns an op's name with its overload: "aten::mm", "aten::add.Tensor".
std::string full_name(const c10::OperatorName& name);

} // namespace ftm
