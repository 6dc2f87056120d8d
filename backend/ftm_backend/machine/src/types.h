// Element types and their sizes, as coded in images (see ftm_machine.h).
#pragma once

#include "isa_gen.h"

#include <cstdint>

namespace ftm {

using isa::kTypes;
using isa::Type;

constexpr int64_t type_bytes(Type type) {
  return isa::kTypeBytes[static_cast<int>(type)];
}

constexpr const char* type_name(Type type) {
  return isa::kTypeNames[static_cast<int>(type)];
}

constexpr bool is_float(Type type) {
  return type <= Type::BF16;
}
constexpr bool is_half(Type type) {
  return type == Type::F16 || type == Type::BF16;
}

// Whether elements can be copied between the two types: DMA does not distinguish signed and
// unsigned bytes.
constexpr bool same_elements(Type a, Type b) {
  const auto byte = [](Type t) { return t == Type::I8 || t == Type::U8; };
  return a == b || (byte(a) && byte(b));
}

// The type of a strip's elements while a map runs. Halves are held as float32 of the same value, so
// that a chain of half operations converts only at its ends.
constexpr Type strip_type(Type type) {
  return is_half(type) ? Type::F32 : type;
}

} // namespace ftm
