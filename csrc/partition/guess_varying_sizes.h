// Guesses which sizes of a program's parameters will differ when the same operations are recorded
// again.
#pragma once

#include "graph/value_type.h"
#include "memory/buffer.h"

#include <cstdint>
#include <vector>

namespace ftm {

// Returns a bit mask of dimensions for each parameter: those that are symbols in the program that
// computed it; those in which several parts of a computed value differ (the tokens of experts);
// and, unless the trace trains, dimensions of size 1 that may be larger. Empty if the trace trains
// and no dimension varies.
std::vector<uint64_t> varying_dimensions(
    const std::vector<ValueType>& parameters, const std::vector<Input>& inputs, bool trains);

// Converts a result's varying dimensions if its buffer has other sizes outside of the program: then
// the first dimension of size above 1 varies.
uint64_t varying_outside(uint64_t varies, const ValueType& result, const Buffer& buffer);

} // namespace ftm
