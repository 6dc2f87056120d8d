// Specs of the view ops: ftm.view reads, and ftm.update writes, elements at sizes, strides and
// offset of a base; ftm.bitcast reinterprets its bytes.
#pragma once

#include "graph/call_spec.h"

namespace ftm {

// Whether the elements are contiguous and in index order.
bool is_row_major(c10::IntArrayRef sizes, c10::IntArrayRef strides);

// Reads a strided view of `base` as a dense value. `offset` is in elements.
CallSpecPtr view_spec(
    const ValueType& base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset);
// Returns `base` with the elements of a strided view replaced by a dense value.
CallSpecPtr update_spec(
    const ValueType& base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset);
// Reinterprets the bytes of `base` as a one-dimensional value of another dtype.
CallSpecPtr bitcast_spec(const ValueType& base, at::ScalarType dtype);
// Reads a dense tensor with these strides in the order of its elements in memory.
CallSpecPtr memory_order_spec(const ValueType& base, c10::IntArrayRef strides);

} // namespace ftm
