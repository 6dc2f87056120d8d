// The functional form of an op that writes to its arguments: what a trace has in its place.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace ftm {

// A mutable alias annotation.
bool is_written(const c10::Argument& argument);

// Of an in-place or out= op, by name and arguments; none if ATen has none.
std::optional<c10::OperatorHandle> find_functional(const c10::OperatorHandle& op);

} // namespace ftm
