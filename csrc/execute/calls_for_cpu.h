// Which pending calls the CPU may run instead of a program.
#pragma once

#include "graph/node.h"

#include <c10/util/FunctionRef.h>

#include <optional>
#include <vector>

namespace ftm {

// Returns the calls on which a value depends, or nullopt if the CPU must not run them: they are
// more than `most`; one of them draws random numbers or communicates; or `admits` returns false for
// the value or an operand. Called under the recorder's lock.
std::optional<std::vector<const CallNode*>> calls_for_cpu(
    const Value& value, size_t most, c10::function_ref<bool(const Value&)> admits);

} // namespace ftm
