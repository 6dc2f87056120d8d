#include "graph/value_type.h"

#include <iterator>

namespace ftm {

const DtypeInfo& dtype_info(c10::ScalarType dtype) {
  static constexpr DtypeInfo none = {};
  const auto number = static_cast<size_t>(dtype);
  return number < std::size(kDtypes) ? kDtypes[number] : none;
}

const char* dtype_token(c10::ScalarType dtype) {
  const char* token = dtype_info(dtype).token;
  return token != nullptr ? token : c10::toString(dtype);
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
