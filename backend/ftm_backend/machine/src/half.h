// Conversions between float32 and the 16-bit floats, rounding to nearest even.
#pragma once

#include <cstdint>
#include <cstring>

namespace ftm {

static inline uint32_t float_bits(float x) {
  uint32_t b;
  std::memcpy(&b, &x, 4);
  return b;
}
static inline float bits_float(uint32_t b) {
  float x;
  std::memcpy(&x, &b, 4);
  return x;
}

static inline float bf16_to_float(uint16_t h) {
  return bits_float(uint32_t(h) << 16);
}

static inline uint16_t float_to_bf16(float x) {
  uint32_t b = float_bits(x);
  if ((b & 0x7fffffff) > 0x7f800000) return uint16_t((b >> 16) | 0x40); // NaN stays NaN
  return uint16_t((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}

static inline float f16_to_float(uint16_t h) {
  uint32_t sign = uint32_t(h & 0x8000) << 16;
  uint32_t rest = h & 0x7fff;
  if (rest >= 0x7c00)
    return bits_float(sign | 0x7f800000 | (rest & 0x3ff) << 13 | (rest > 0x7c00 ? 0x400000 : 0));
  if (rest < 0x400) return bits_float(sign | float_bits(float(rest) * 0x1p-24f));
  return bits_float(sign | ((rest << 13) + 0x38000000));
}

static inline uint16_t float_to_f16(float x) {
  uint32_t b = float_bits(x);
  uint16_t sign = uint16_t(b >> 16 & 0x8000);
  b &= 0x7fffffff;
  if (b > 0x7f800000) return uint16_t(sign | 0x7e00 | (b >> 13 & 0x1ff));
  if (b >= 0x477ff000) return uint16_t(sign | 0x7c00); // 65520 and more round to infinity
  if (b < 0x38800000) {
    // Below the least normal half: adding 0.5 leaves the rounded subnormal in the low bits.
    uint32_t r = float_bits(bits_float(b) + 0.5f) - 0x3f000000;
    return uint16_t(sign | r);
  }
  b += 0xfff + (b >> 13 & 1);
  return uint16_t(sign | ((b - 0x38000000) >> 13));
}

} // namespace ftm
