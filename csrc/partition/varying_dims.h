// Which dimensions of values vary from one run of a program to the next.
#pragma once

#include "graph/value_type.h"
#include "memory/buffer.h"

#include <cstdint>
#include <vector>

namespace ftm {

// Returns a bit mask of varying dimensions for each parameter: those that are symbols in the
// program that computed it, and those in which several parts of a computed value differ.
std::vector<uint64_t> varying_dimensions(
    const std::vector<ValueType>& parameters, const std::vector<Input>& inputs, bool trains);

// Converts a result's varying dimensions if its buffer has other sizes outside of the program: then
// the first dimension of size above 1 varies.
uint64_t varying_outside(uint64_t varies, const ValueType& result, const Buffer& buffer);

} // namespace ftm
