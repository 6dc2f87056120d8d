// Element types and their sizes, as coded in images (see ftm_machine.h).
#pragma once

#include <cstdint>

namespace ftm {

enum class Type : uint8_t { F64, F32, F16, BF16, I64, I32, I16, I8, U8, B1 };

constexpr int kTypes = 10;

constexpr int64_t type_bytes(Type type) {
  constexpr int64_t bytes[kTypes] = {8, 4, 2, 2, 8, 4, 2, 1, 1, 1};
  return bytes[static_cast<int>(type)];
}

constexpr const char* type_name(Type type) {
  constexpr const char* names[kTypes] = {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "i1"};
  return names[static_cast<int>(type)];
}

constexpr bool is_float(Type type) {
  return type <= Type::BF16;
}
constexpr bool is_half(Type type) {
  return type == Type::F16 || type == Type::BF16;
}

// Whether elements may move between the two without a conversion: signed and unsigned bytes are one type to DMA.
constexpr bool same_elements(Type a, Type b) {
  const auto byte = [](Type t) { return t == Type::I8 || t == Type::U8; };
  return a == b || (byte(a) && byte(b));
}

// The type in which a strip of such elements is held while a map runs: halves are kept as the float32 that
// has the same value, so that a chain of half operations converts only at its ends.
constexpr Type strip_type(Type type) {
  return is_half(type) ? Type::F32 : type;
}

} // namespace ftm
