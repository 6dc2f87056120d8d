// Views of values, recorded as ftm.view, ftm.update and ftm.bitcast. All functions: under the
// recorder's lock.
#pragma once

#include "graph/node.h"

namespace ftm {

// Returns the elements of `base` at sizes, strides and offset (in elements) as a dense value.
Value strided_view(Value base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset);
// Returns `base` with the elements at sizes, strides and offset replaced by `value`.
Value updated(
    const Value& base, const Value& value, c10::IntArrayRef sizes, c10::IntArrayRef strides,
    int64_t offset);
// Returns the elements of `value` in the memory order of a dense tensor with these strides.
Value in_memory_order(Value value, c10::IntArrayRef strides);
// Returns the bytes of `base` as a one-dimensional value of another dtype.
Value bitcast(const Value& base, at::ScalarType dtype);

} // namespace ftm
