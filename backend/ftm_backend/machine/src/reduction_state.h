// State of a map's reduction: its start value, and its conversion to an element of a tile.
#pragma once

#include <cstring>
#include <limits>

#include "half.h"
#include "kernels/table.h"

namespace ftm {

inline Accumulator identity(Reduction reduction, Type type) {
  Accumulator acc;
  if (is_float(type)) {
    const double infinity = std::numeric_limits<double>::infinity();
    const double start[] = {0.0, 1.0, infinity, -infinity, 1.0, 0.0};
    acc.f = start[int(reduction)];
    return acc;
  }
  const int bits = type == Type::I64   ? 63
                   : type == Type::I32 ? 31
                   : type == Type::I16 ? 15
                   : type == Type::I8  ? 7
                                       : 8;
  const bool is_signed = type != Type::U8 && type != Type::B1;
  const int64_t most = type == Type::B1 ? 1 : bits == 63 ? INT64_MAX : (int64_t(1) << bits) - 1;
  const int64_t start[] = {0, 1, most, is_signed ? -most - 1 : 0, -1, 0};
  acc.i = start[int(reduction)];
  return acc;
}

template <class T>
T element_at(const void* at) {
  T x;
  std::memcpy(&x, at, sizeof x);
  return x;
}
template <class T>
void put_element(void* at, T x) {
  std::memcpy(at, &x, sizeof x);
}

// The start state of a reduction that accumulates onto the element at `at`.
inline Accumulator resume(Type type, const void* at) {
  Accumulator acc;
  switch (type) {
    case Type::F64: acc.f = element_at<double>(at); break;
    case Type::F32: acc.f = element_at<float>(at); break;
    case Type::F16: acc.f = f16_to_float(element_at<uint16_t>(at)); break;
    case Type::BF16: acc.f = bf16_to_float(element_at<uint16_t>(at)); break;
    case Type::I64: acc.i = element_at<int64_t>(at); break;
    case Type::I32: acc.i = element_at<int32_t>(at); break;
    case Type::I16: acc.i = element_at<int16_t>(at); break;
    case Type::I8: acc.i = element_at<int8_t>(at); break;
    default: acc.i = element_at<uint8_t>(at);
  }
  return acc;
}

// Converts a final state to an element at `at`.
inline void finish(const Accumulator& acc, Type type, void* at) {
  switch (type) {
    case Type::F64: return put_element(at, acc.f);
    case Type::F32: return put_element(at, float(acc.f));
    case Type::F16: return put_element(at, float_to_f16(float(acc.f)));
    case Type::BF16: return put_element(at, float_to_bf16(float(acc.f)));
    case Type::I64: return put_element(at, acc.i);
    case Type::I32: return put_element(at, int32_t(acc.i));
    case Type::I16: return put_element(at, int16_t(acc.i));
    case Type::I8: return put_element(at, int8_t(acc.i));
    case Type::U8: return put_element(at, uint8_t(acc.i));
    case Type::B1: return put_element(at, uint8_t(acc.i != 0));
  }
}

} // namespace ftm
