// Types of the values in a trace.
#pragma once

#include "graph/dtypes_gen.h"

#include <c10/core/ScalarType.h>
#include <c10/util/DimVector.h>
#include <c10/util/accumulate.h>

#include <string>

namespace ftm {

// Type of a value in a trace, which is dense and row-major.
struct ValueType {
  c10::ScalarType dtype = c10::ScalarType::Undefined; // Undefined: there is no value
  c10::DimVector sizes;

  int64_t numel() const { return c10::multiply_integers(sizes); }
  bool operator==(const ValueType& other) const {
    return dtype == other.dtype && sizes == other.sizes;
  }
};

// Returns a dtype's properties. For a dtype that traces do not support, `token` is null.
const DtypeInfo& dtype_info(c10::ScalarType dtype);
// Returns the name in traces: "f32", "i64". For other dtypes, PyTorch's name.
const char* dtype_token(c10::ScalarType dtype);
// Returns a type's text: "f32[2,3]", or "none".
std::string type_text(const ValueType& type);
// Returns sizes as text: "[64,64]".
std::string extents_text(c10::IntArrayRef extents);

} // namespace ftm
