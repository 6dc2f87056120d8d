// Which sizes of a program's parameters are likely to be others when the same is recorded again.
#pragma once

#include "graph/value_type.h"
#include "memory/buffer.h"
#include "program/compile_client.h"

#include <cstdint>
#include <vector>

namespace ftm {

// Of each parameter these dimensions, one bit each: what the programs that computed it have as
// symbols, those in which parts of a computed value differ, as the tokens of experts do, and, where
// nothing trains, those of 1 that may be one of many. Empty where a trace that trains has none.
std::vector<uint64_t> varying_dimensions(
    const std::vector<ValueType>& parameters, const std::vector<Input>& inputs, bool trains);

// For a step of concatenations, all of whose parameters' sizes are others when it is taken again.
SizeGuess any_sizes(const std::vector<ValueType>& parameters);

// What varies of a result, where its buffer is known outside by other sizes: a row that varies does
// so along the first dimension of several elements.
uint64_t varying_outside(uint64_t varies, const ValueType& result, const Buffer& buffer);

} // namespace ftm
