// Evaluates conditions on integer and boolean tensors on the CPU. Example: `if (mask == 1).all():`
// between the calls of a model. Reading the condition from the device would cut the trace there. If
// it depends only on integers and booleans that are in memory, and on constants, the CPU computes
// it (counter `conditions_on_cpu`), nothing is launched, and recording continues.
#pragma once

#include "tensor/storage_variable.h"

#include <optional>

namespace ftm {

// Returns the condition's value, or nullopt if it does not qualify or more than 32 calls are
// pending. May wait for running programs. Throws their errors. Must not be called under the
// recorder's lock.
std::optional<bool> evaluate_condition(const at::Tensor& tensor);

// Keeps the expression of a launched program's result if the CPU can evaluate it, so that later
// conditions may depend on it. `computed` is the buffer that will have the result. Called under the
// recorder's lock.
void keep_host_expression(const Value& result, const Value& computed);

} // namespace ftm
