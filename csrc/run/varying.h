// Which sizes of a program's parameters are likely to be others when the same is recorded again.
#pragma once

#include "graph/value_type.h"
#include "memory/buffer.h"

#include <cstdint>
#include <vector>

namespace ftm {

// Of each parameter these dimensions, one bit each: what the programs that computed it have as symbols, and those in which
// parts of a computed value differ, as the tokens of experts do. Empty where a trace that trains has none.
std::vector<uint64_t> varying_dimensions(
    const std::vector<ValueType>& parameters, const std::vector<Input>& inputs, bool trains);

} // namespace ftm
