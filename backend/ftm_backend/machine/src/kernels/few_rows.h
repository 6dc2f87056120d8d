// Matrix products with few rows, such as one token's: the time is that of reading B once.
//
// B is read as it is in memory, in either orientation and in float32, float16 or bfloat16, and is
// converted in registers. It may be a buffer of the user, so no load reaches past its end.
#pragma once

#include "half.h"
#include "kernels/table.h"
#include "kernels/vec.h"

namespace ftm {
namespace FTM_ISA {

// Rows of B whose products are added to C in one pass over its columns, and vectors of columns in
// registers. Rows are read in the order of memory where possible, because prefetchers follow it.
constexpr int kPassRows = 8, kPassVectors = 2;
// Bytes of a row of B that are requested ahead: the processor's own prefetcher stops at the end of
// a page. 2048 and 8192 were equally good.
constexpr int64_t kAhead = 2048;
constexpr int kGroup = 4; // rows of A that are multiplied at once: more need too many registers
// Independent sums of a dot product: as many as a multiplication takes cycles.
constexpr int dot_sums(int rows) {
  return rows < 4 ? 4 / rows : 1;
}

struct Half { uint16_t bits; };
struct Brain { uint16_t bits; };

FTM_INLINE vf load_floats(const float* p) {
  return load<vf>(p);
}
FTM_INLINE vf load_floats(const Half* p) {
#if defined(__AVX512F__)
  return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
#elif defined(__AVX2__)
  return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
#else
  vf v;
  for (int i = 0; i < kFloats; ++i) v[i] = f16_to_float(p[i].bits);
  return v;
#endif
}
FTM_INLINE vf load_floats(const Brain* p) {
#if defined(__AVX512F__)
  const __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p));
  return (vf)_mm512_slli_epi32(bits, 16);
#elif defined(__AVX2__)
  const __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p));
  return (vf)_mm256_slli_epi32(bits, 16);
#else
  vf v;
  for (int i = 0; i < kFloats; ++i) v[i] = bf16_to_float(p[i].bits);
  return v;
#endif
}
// Loads the first `count` lanes; the others are zero.
template <class S>
FTM_INLINE vf load_part(const S* p, int64_t count) {
  S part[kFloats] = {};
  for (int64_t i = 0; i < count; ++i) part[i] = p[i];
  return load_floats(part);
}

FTM_INLINE float sum_lanes(vf v) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)v);
#else
  float part[kFloats];
  store(part, v);
  for (int half = kFloats / 2; half; half /= 2)
    for (int i = 0; i < half; ++i) part[i] += part[i + half];
  return part[0];
#endif
}

// Columns of C: Vectors vectors, or the first `count` lanes of one vector if Part.
template <class S, int Rows, int Vectors, bool Part>
FTM_INLINE void few_columns(
    int64_t k, const float* a, int64_t lda, const S* b, int64_t ldb, float* c, int64_t ldc,
    bool acc, int64_t count) {
  vf sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int64_t r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int64_t v = 0; v < Vectors; ++v) {
      const float* from = c + r * ldc + v * kFloats;
      sum[r][v] = !acc ? vf{} : Part ? load_part(from, count) : load<vf>(from);
    }
  for (int64_t p = 0; p < k; ++p, b += ldb) {
#pragma GCC unroll 16
    for (int64_t v = 0; v < Vectors; ++v) {
      if (!Part) __builtin_prefetch(b + kPassRows * ldb + v * kFloats); // of the next pass
      const vf row = Part ? load_part(b, count) : load_floats(b + v * kFloats);
#pragma GCC unroll 16
      for (int64_t r = 0; r < Rows; ++r) sum[r][v] = fma(splat(a[r * lda + p]), row, sum[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int64_t r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int64_t v = 0; v < Vectors; ++v) {
      float* out = c + r * ldc + v * kFloats;
      if (Part) store_part(out, sum[r][v], count);
      else store(out, sum[r][v]);
    }
}

// A column of C: dot products of Rows rows of A and a row of B.
template <class S, int Rows>
FTM_INLINE void few_dots(
    int64_t k, const float* a, int64_t lda, const S* b, float* c, int64_t ldc, bool acc) {
  constexpr int64_t kDots = dot_sums(Rows);
  vf sum[Rows][kDots];
#pragma GCC unroll 16
  for (int64_t r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int64_t d = 0; d < kDots; ++d) sum[r][d] = vf{};
  int64_t p = 0;
  for (; p + kDots * kFloats <= k; p += kDots * kFloats)
#pragma GCC unroll 16
    for (int64_t d = 0; d < kDots; ++d) {
      const int64_t at = p + d * kFloats;
      __builtin_prefetch(b + at + kAhead / int64_t(sizeof(S)));
      const vf row = load_floats(b + at);
#pragma GCC unroll 16
      for (int64_t r = 0; r < Rows; ++r)
        sum[r][d] = fma(load<vf>(a + r * lda + at), row, sum[r][d]);
    }
  for (; p < k; p += kFloats) {
    const int64_t count = k - p < kFloats ? k - p : kFloats;
    const vf row = load_part(b + p, count);
#pragma GCC unroll 16
    for (int64_t r = 0; r < Rows; ++r)
      sum[r][0] = fma(load_part(a + r * lda + p, count), row, sum[r][0]);
  }
#pragma GCC unroll 16
  for (int64_t r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
    for (int d = 1; d < kDots; ++d) sum[r][0] += sum[r][d];
    float& out = c[r * ldc];
    out = sum_lanes(sum[r][0]) + (acc ? out : 0.0f);
  }
}

template <class S, int Rows>
void few_rows_of(
    int64_t n, int64_t k, const float* a, int64_t lda, const S* b, int64_t ldb, bool transposed,
    float* c, int64_t ldc, bool acc) {
  if (transposed) {
    for (int64_t j = 0; j < n; ++j) few_dots<S, Rows>(k, a, lda, b + j * ldb, c + j, ldc, acc);
    return;
  }
  for (int64_t p = 0; p == 0 || p < k; p += kPassRows, b += kPassRows * ldb) {
    const int64_t depth = k - p < kPassRows ? k - p : kPassRows;
    const bool add = acc || p > 0;
    int64_t j = 0;
    for (; j + kPassVectors * kFloats <= n; j += kPassVectors * kFloats)
      few_columns<S, Rows, kPassVectors, false>(depth, a + p, lda, b + j, ldb, c + j, ldc, add, 0);
    for (; j + kFloats <= n; j += kFloats)
      few_columns<S, Rows, 1, false>(depth, a + p, lda, b + j, ldb, c + j, ldc, add, 0);
    if (j < n) few_columns<S, Rows, 1, true>(depth, a + p, lda, b + j, ldb, c + j, ldc, add, n - j);
  }
}

// Rows in groups of at most Most. A tile of B stays in the caches for the next group.
template <class S, int Most>
void few_rows(
    int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const void* b, int64_t ldb,
    bool transposed, float* c, int64_t ldc, bool acc) {
  const S* const from = static_cast<const S*>(b);
  for (; m >= Most; m -= Most, a += Most * lda, c += Most * ldc)
    few_rows_of<S, Most>(n, k, a, lda, from, ldb, transposed, c, ldc, acc);
  if constexpr (Most > 1)
    if (m) few_rows<S, Most - 1>(m, n, k, a, lda, b, ldb, transposed, c, ldc, acc);
}

static void put_few_rows(KernelTable& table) {
  table.few_rows[few_rows_index(Type::F32)] = few_rows<float, kGroup>;
  table.few_rows[few_rows_index(Type::F16)] = few_rows<Half, kGroup>;
  table.few_rows[few_rows_index(Type::BF16)] = few_rows<Brain, kGroup>;
}

} // namespace FTM_ISA
} // namespace ftm
