// Sizes and strides of a view as products of the extents of the memory that it shows.
#pragma once

#include "graph/call_spec.h"

#include <functional>
#include <string>
#include <vector>

namespace ftm {

// A row-major value that a view reads, and a bit mask of its dimensions that vary.
struct ViewedMemory {
  c10::DimVector sizes;
  uint64_t varies = 0;
};

// Polynomials for the numbers of a view; an empty text is a literal.
struct ViewPolynomials {
  std::vector<std::string> sizes, strides;
  std::string extent; // of the memory from the first to the last element
};

// Returns the symbol for an extent or a stride of this value.
using NewSymbol = std::function<std::string(bool is_stride, int64_t value)>;

// Makes the number of steps along each varying dimension of the memory a symbol if it is at least
// `smallest`. Strides are products of these numbers. If the view shows only a part of a dimension,
// the stride over it is a symbol. `grown`: the dimension of the view along which a concatenation
// appends to it, or -1. It varies, and a later view may show only a part of it. All texts are empty
// if nothing varies.
ViewPolynomials view_polynomials(
    const CallSpec& view, ViewedMemory memory, int64_t grown, int64_t smallest,
    const NewSymbol& symbol);

} // namespace ftm
