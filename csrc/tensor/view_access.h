// Windows of values: read and written through sizes, strides and offset, recorded as ftm.view,
// ftm.update and ftm.bitcast. All under the recorder's lock.
#pragma once

#include "graph/node.h"

namespace ftm {

Value strided_view(Value base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset);
Value updated(
    const Value& base, const Value& value, c10::IntArrayRef sizes, c10::IntArrayRef strides,
    int64_t offset);
// `value` in the memory order of a dense tensor with these strides.
Value in_memory_order(Value value, c10::IntArrayRef strides);
// The bytes of `base` as a flat value of another dtype.
Value bitcast(const Value& base, at::ScalarType dtype);

} // namespace ftm
