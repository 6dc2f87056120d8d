#include "graph/value_type.h"

namespace ftm {

const char* dtype_token(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::kDouble: return "f64";
    case c10::kFloat: return "f32";
    case c10::kHalf: return "f16";
    case c10::kBFloat16: return "bf16";
    case c10::kLong: return "i64";
    case c10::kInt: return "i32";
    case c10::kShort: return "i16";
    case c10::kChar: return "i8";
    case c10::kByte: return "u8";
    case c10::kUInt16: return "u16";
    case c10::kUInt32: return "u32";
    case c10::kUInt64: return "u64";
    case c10::kFloat8_e4m3fn: return "f8e4m3fn";
    case c10::kFloat8_e5m2: return "f8e5m2";
    case c10::kFloat8_e4m3fnuz: return "f8e4m3fnuz";
    case c10::kFloat8_e5m2fnuz: return "f8e5m2fnuz";
    case c10::kFloat8_e8m0fnu: return "f8e8m0fnu";
    case c10::kBool: return "i1";
    case c10::kComplexFloat: return "c64";
    case c10::kComplexHalf: return "c32";
    case c10::kComplexDouble: return "c128";
    default: return c10::toString(dtype);
  }
}

std::string type_text(const ValueType& type) {
  if (type.dtype == c10::ScalarType::Undefined) {
    return "none";
  }
  return dtype_token(type.dtype) + extents_text(type.sizes);
}

std::string extents_text(c10::IntArrayRef values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(values[i]);
  }
  return text + "]";
}

} // namespace ftm
