// Transposes 16 x 16 elements of 32 bits in vector registers.
#pragma once

#include "kernels/vec.h"

#if defined(__AVX512F__)
namespace ftm {
namespace FTM_ISA {

// Swaps ever larger blocks between rows: pairs and groups of four within quarters of a register,
// then the quarters.
FTM_INLINE void transpose_registers(__m512i (&r)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  constexpr int kEven = 0x88, kOdd = 0xdd; // quarters 0 and 2, or 1 and 3, of either register
  const auto quarters = [](const __m512i* from, __m512i* to) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      to[i] = _mm512_shuffle_i32x4(from[i], from[i + 4], kEven);
      to[i + 4] = _mm512_shuffle_i32x4(from[i + 8], from[i + 12], kEven);
      to[i + 8] = _mm512_shuffle_i32x4(from[i], from[i + 4], kOdd);
      to[i + 12] = _mm512_shuffle_i32x4(from[i + 8], from[i + 12], kOdd);
    }
  };
  quarters(r, t);
  quarters(t, r);
}

} // namespace FTM_ISA
} // namespace ftm
#endif
