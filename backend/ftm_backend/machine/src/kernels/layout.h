// Transposing and pairing copies, ramps and random bits.
#pragma once

#include <algorithm>

#include "kernels/table.h"
#include "kernels/transpose_registers.h"
#include "kernels/vec.h"

namespace ftm {
namespace FTM_ISA {

// Transposes an N x N block by swapping ever larger blocks between pairs of rows.
template <class T, int N>
FTM_INLINE void transpose_square(T* d, int64_t ldd, const T* s, int64_t lds) {
  typedef T Row __attribute__((vector_size(N * sizeof(T))));
  Row r[N];
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) __builtin_memcpy(&r[i], s + i * lds, sizeof(Row));
  if constexpr (N == 8) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 2) {
      Row a = r[i], b = r[i + 1];
      r[i] = __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14);
      r[i + 1] = __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += (i & 1) ? 3 : 1) {
      Row a = r[i], b = r[i + 2];
      r[i] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
      r[i + 2] = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 4; ++i) {
      Row a = r[i], b = r[i + 4];
      r[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
      r[i + 4] = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
    }
  } else {
    static_assert(N == 4);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i += 2) {
      Row a = r[i], b = r[i + 1];
      r[i] = __builtin_shufflevector(a, b, 0, 4, 2, 6);
      r[i + 1] = __builtin_shufflevector(a, b, 1, 5, 3, 7);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 2; ++i) {
      Row a = r[i], b = r[i + 2];
      r[i] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
      r[i + 2] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) __builtin_memcpy(d + i * ldd, &r[i], sizeof(Row));
}

#if defined(__AVX512F__)
template <>
inline __attribute__((always_inline)) void transpose_square<uint32_t, 16>(
    uint32_t* d, int64_t ldd, const uint32_t* s, int64_t lds) {
  __m512i r[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = _mm512_loadu_si512(s + i * lds);
  transpose_registers(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_storeu_si512(d + i * ldd, r[i]);
}
#endif

// N columns, down a column of blocks: the destination's lines fill one after the other.
template <class T, int N>
FTM_INLINE void transpose_columns(T* d, int64_t ldd, const T* s, int64_t lds, int64_t rows) {
  int64_t i = 0;
  for (; i + N <= rows; i += N) transpose_square<T, N>(d + i, ldd, s + i * lds, lds);
  if constexpr (N == 16)
    for (; i + 8 <= rows; i += 8)
      for (int c = 0; c < 16; c += 8)
        transpose_square<T, 8>(d + c * ldd + i, ldd, s + i * lds + c, lds);
  for (; i < rows; ++i)
    for (int c = 0; c < N; ++c) d[c * ldd + i] = s[i * lds + c];
}

template <class T, int N>
void transpose(void* d, int64_t ldd, const void* s, int64_t lds, int64_t rows, int64_t columns) {
  if constexpr (N == 16) // such distant rows share one cache set, which has 8 to 12 ways
    if (ldd * int64_t(sizeof(T)) % 4096 == 0) return transpose<T, 8>(d, ldd, s, lds, rows, columns);
  T* out = static_cast<T*>(d);
  const T* in = static_cast<const T*>(s);
  int64_t j = 0;
  for (; j + N <= columns; j += N) transpose_columns<T, N>(out + j * ldd, ldd, in + j, lds, rows);
  if constexpr (N == 16)
    for (; j + 8 <= columns; j += 8) transpose_columns<T, 8>(out + j * ldd, ldd, in + j, lds, rows);
  for (; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) out[j * ldd + i] = in[i * lds + j];
}

#if defined(__AVX512F__)
// The same for 16-bit elements. Two rows are one row of pairs, so that a block of 32 x 16 is a
// block of 16 x 16 pairs.
static void transpose_halves(
    void* d, int64_t ldd, const void* s, int64_t lds, int64_t rows, int64_t columns) {
  for (int64_t j = 0; j < columns; j += 16)
    for (int64_t i = 0; i < rows; i += 32) {
      const int width = int(std::min<int64_t>(columns - j, 16));
      const int height = int(std::min<int64_t>(rows - i, 32));
      const uint16_t* const from = static_cast<const uint16_t*>(s) + i * lds + j;
      const auto load_row = [from, lds, height, width](int row) __attribute__((always_inline)) {
        const __mmask16 present = __mmask16(row < height ? (1u << width) - 1 : 0);
        return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(present, from + row * lds));
      };
      __m512i r[16];
#pragma GCC unroll 16
      for (int p = 0; p < 16; ++p)
        r[p] = _mm512_or_si512(load_row(2 * p), _mm512_slli_epi32(load_row(2 * p + 1), 16));
      transpose_registers(r);
      uint16_t* const to = static_cast<uint16_t*>(d) + j * ldd + i;
      const __mmask32 present = __mmask32((uint64_t{1} << height) - 1);
#pragma GCC unroll 16
      for (int c = 0; c < 16; ++c)
        if (c < width) _mm512_mask_storeu_epi16(to + c * ldd, present, r[c]);
    }
}
#endif

static void pair_rows(
    BrainPair* d, int64_t ldd, const uint16_t* s, int64_t lds, int64_t rows, int64_t columns) {
  for (int64_t p = 0; 2 * p < rows; ++p, d += ldd, s += 2 * lds) {
    const bool is_whole = 2 * p + 1 < rows;
    if (is_whole)
#pragma GCC ivdep
      for (int64_t j = 0; j < columns; ++j) d[j].bits = s[j] | uint32_t(s[lds + j]) << 16;
    else
#pragma GCC ivdep
      for (int64_t j = 0; j < columns; ++j) d[j].bits = s[j];
  }
}

static void ramp(int64_t* d, int64_t base, int64_t step, int64_t n) {
  for (int64_t i = 0; i < n; ++i) d[i] = int64_t(uint64_t(base) + uint64_t(i) * uint64_t(step));
}

// --- Philox4x32-10 (Salmon et al., SC 2011)
// -----------------------------------------------------------

struct PhiloxWords { uint32_t w[4]; };

template <class U> // uint64_t, or a vector of them: one counter in each lane
FTM_INLINE void philox_rounds(U& x0, U& x1, U& x2, U& x3, uint64_t seed) {
  const uint64_t low = 0xffffffff;
  uint64_t k0 = seed & low, k1 = seed >> 32;
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    U p = (x0 & low) * 0xD2511F53u;
    U q = (x2 & low) * 0xCD9E8D57u;
    x0 = (q >> 32) ^ x1 ^ k0;
    x2 = (p >> 32) ^ x3 ^ k1;
    x1 = q & low;
    x3 = p & low;
    k0 = (k0 + 0x9E3779B9u) & low;
    k1 = (k1 + 0xBB67AE85u) & low;
  }
}

// Computes the words of counters first .. first + blocks - 1, one after the other.
static void philox_blocks(
    int32_t* d, uint64_t first, uint64_t seed, uint64_t offset, int64_t blocks) {
  using V = Vec<uint64_t>;
  constexpr int L = VectorOf<uint64_t>::lanes;
  V lanes;
  for (int i = 0; i < L; ++i) lanes[i] = uint64_t(i);
  int64_t b = 0;
  for (; b < blocks; b += L) {
    V counter = lanes + (first + uint64_t(b));
    V x0 = counter & 0xffffffff, x1 = counter >> 32;
    V x2 = broadcast<V>(offset & 0xffffffff), x3 = broadcast<V>(offset >> 32);
    philox_rounds(x0, x1, x2, x3, seed);
    // Words 0 and 1, then 2 and 3, of a counter as one 64-bit number.
    V front = x0 | x1 << 32, back = x2 | x3 << 32;
    const int64_t count = blocks - b < L ? blocks - b : L;
    uint64_t pairs[2 * L];
    for (int64_t i = 0; i < L; ++i) {
      pairs[2 * i] = front[i];
      pairs[2 * i + 1] = back[i];
    }
    if (count == L) __builtin_memcpy(d + 4 * b, pairs, sizeof pairs);
    else __builtin_memcpy(d + 4 * b, pairs, size_t(count) * 16);
  }
}

static void philox(int32_t* d, const int64_t* index, uint64_t seed, uint64_t offset, int64_t n) {
  if (n == 0) return;
  const uint64_t first = uint64_t(index[0]);
  uint64_t strange = 0;
  for (int64_t i = 0; i < n; ++i) strange |= uint64_t(index[i]) ^ (first + uint64_t(i));
  const auto word = [&](uint64_t at) {
    uint64_t x0 = (at >> 2) & 0xffffffff, x1 = at >> 34, x2 = offset & 0xffffffff,
             x3 = offset >> 32;
    philox_rounds(x0, x1, x2, x3, seed);
    const uint64_t words[4] = {x0, x1, x2, x3};
    return int32_t(words[at & 3]);
  };
  int64_t i = 0;
  if (!strange) {
    for (; i < n && ((first + uint64_t(i)) & 3); ++i) d[i] = word(first + uint64_t(i));
    const int64_t blocks = (n - i) / 4;
    philox_blocks(d + i, (first + uint64_t(i)) >> 2, seed, offset, blocks);
    i += 4 * blocks;
  }
  for (; i < n; ++i) d[i] = word(uint64_t(index[i]));
}

static void put_layout(KernelTable& table) {
  table.transpose[0] = transpose<uint8_t, 8>;
#if defined(__AVX512F__)
  table.transpose[1] = transpose_halves;
  table.transpose[2] = transpose<uint32_t, 16>;
#else
  table.transpose[1] = transpose<uint16_t, 8>;
  table.transpose[2] = transpose<uint32_t, 8>;
#endif
  table.transpose[3] = transpose<uint64_t, 4>;
  table.pair_rows = pair_rows;
  table.ramp = ramp;
  table.philox = philox;
}

} // namespace FTM_ISA
} // namespace ftm
