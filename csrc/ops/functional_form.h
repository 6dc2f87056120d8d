// Functional variants of ops that write to their arguments. Traces have only functional ops.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace ftm {

// Whether the op writes to this argument, according to its alias annotation.
bool is_written(const c10::Argument& argument);

// Returns the functional variant of an in-place or out= op, matched by name and argument types;
// nullopt if ATen has none.
std::optional<c10::OperatorHandle> find_functional(const c10::OperatorHandle& op);

} // namespace ftm
