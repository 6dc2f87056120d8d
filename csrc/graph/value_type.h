// Types of the trace's values.
#pragma once

#include "graph/dtypes_gen.h"

#include <c10/core/ScalarType.h>
#include <c10/util/DimVector.h>
#include <c10/util/accumulate.h>

#include <string>

namespace ftm {

// Type of a value of the trace: dense, row-major.
struct ValueType {
  c10::ScalarType dtype = c10::ScalarType::Undefined; // Undefined: there is no value
  c10::DimVector sizes;

  int64_t numel() const { return c10::multiply_integers(sizes); }
  bool operator==(const ValueType& other) const {
    return dtype == other.dtype && sizes == other.sizes;
  }
};

// Of a dtype that no trace has: without a token.
const DtypeFacts& dtype_facts(c10::ScalarType dtype);
// "f32", "i64", ...
const char* dtype_token(c10::ScalarType dtype);
// "f32[2,3]", or "none"
std::string type_text(const ValueType& type);
// "[64,64]"
std::string extents_text(c10::IntArrayRef extents);

} // namespace ftm
