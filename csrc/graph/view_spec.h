// Forms of ftm.view, ftm.update and ftm.bitcast: values read and written through sizes, strides and
// offset.
#pragma once

#include "graph/call_spec.h"

namespace ftm {

// Whether elements lie in a row, in the order of their indices.
bool is_row_major(c10::IntArrayRef sizes, c10::IntArrayRef strides);

CallSpecPtr view_form(
    const ValueType& base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset);
CallSpecPtr update_form(
    const ValueType& base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset);
CallSpecPtr bitcast_form(const ValueType& base, at::ScalarType dtype);
// The view that gives the memory order of a dense tensor with these strides.
CallSpecPtr memory_order_form(const ValueType& base, c10::IntArrayRef strides);

} // namespace ftm
