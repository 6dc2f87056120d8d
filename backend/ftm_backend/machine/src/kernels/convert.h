// Strip loops that convert elements.
#pragma once

#include "half.h"
#include "kernels/arithmetic.h"

namespace ftm {
namespace FTM_ISA {

template <class D, class S>
FTM_INLINE D converted(S x) {
  // The result for a float out of an integer's range is defined by the machine. Narrow integers go
  // through 32 bits, so that -1.0 becomes 255 in u8 on every host.
  if constexpr (floating<S> && !floating<D> && sizeof(D) < 4) return D(int32_t(x));
  else return D(x);
}
template <class D, class S>
void convert(void* d, const void* a, const void*, const void*, int64_t n) {
  D* out = static_cast<D*>(d);
  const S* in = static_cast<const S*>(a);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = converted<D, S>(in[i]);
}
template <class S>
void convert_to_truth(void* d, const void* a, const void*, const void*, int64_t n) {
  uint8_t* out = static_cast<uint8_t*>(d);
  const S* in = static_cast<const S*>(a);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = in[i] != S(0);
}

// --- halves
// -------------------------------------------------------------------------------------------

template <bool Brain>
void half_load(void* d, const void* a, const void*, const void*, int64_t n) {
  float* out = static_cast<float*>(d);
  const uint16_t* in = static_cast<const uint16_t*>(a);
  int64_t i = 0;
#if defined(__AVX512F__)
  if (!Brain)
    for (; i + 16 <= n; i += 16)
      _mm512_storeu_ps(out + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)(in + i))));
#elif defined(__F16C__)
  if (!Brain)
    for (; i + 8 <= n; i += 8)
      _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(in + i))));
#endif
  for (; i < n; ++i) out[i] = Brain ? bf16_to_float(in[i]) : f16_to_float(in[i]);
}
template <bool Brain>
void half_store(void* d, const void* a, const void*, const void*, int64_t n) {
  uint16_t* out = static_cast<uint16_t*>(d);
  const float* in = static_cast<const float*>(a);
  int64_t i = 0;
#if defined(__AVX512F__)
  if (!Brain)
    for (; i + 16 <= n; i += 16)
      _mm256_storeu_si256(
          (__m256i*)(out + i), _mm512_cvtps_ph(_mm512_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  if (!Brain)
    for (; i + 8 <= n; i += 8)
      _mm_storeu_si128(
          (__m128i*)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i < n; ++i) out[i] = Brain ? float_to_bf16(in[i]) : float_to_f16(in[i]);
}
// Rounds a float32 to the half's values.
template <bool Brain>
void half_round(void* d, const void* a, const void*, const void*, int64_t n) {
  float* out = static_cast<float*>(d);
  const float* in = static_cast<const float*>(a);
  int64_t i = 0;
#if defined(__AVX512F__)
  if (!Brain)
    for (; i + 16 <= n; i += 16)
      _mm512_storeu_ps(
          out + i,
          _mm512_cvtph_ps(_mm512_cvtps_ph(_mm512_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT)));
#elif defined(__F16C__)
  if (!Brain)
    for (; i + 8 <= n; i += 8)
      _mm256_storeu_ps(
          out + i,
          _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT)));
#endif
#pragma GCC ivdep
  for (; i < n; ++i)
    out[i] = Brain ? bf16_to_float(float_to_bf16(in[i])) : f16_to_float(float_to_f16(in[i]));
}

template <Type S>
void put_from(KernelTable& table) {
  using E = typename Element<S>::type;
  StripFn* row = table.convert[int(S)];
  row[int(Type::F64)] = convert<double, E>;
  row[int(Type::F32)] = convert<float, E>;
  row[int(Type::I64)] = convert<int64_t, E>;
  row[int(Type::I32)] = convert<int32_t, E>;
  row[int(Type::I16)] = convert<int16_t, E>;
  row[int(Type::I8)] = convert<int8_t, E>;
  row[int(Type::U8)] = convert<uint8_t, E>;
  row[int(Type::B1)] = convert_to_truth<E>;
}

// Conversions from and to halves go through float32; the map compiler adds that step.
static void put_conversions(KernelTable& table) {
  put_from<Type::F64>(table);
  put_from<Type::F32>(table);
  put_from<Type::I64>(table);
  put_from<Type::I32>(table);
  put_from<Type::I16>(table);
  put_from<Type::I8>(table);
  put_from<Type::U8>(table);
  put_from<Type::B1>(table);
  table.convert[int(Type::F32)][int(Type::F16)] = half_round<false>;
  table.convert[int(Type::F32)][int(Type::BF16)] = half_round<true>;
  table.load_half[0] = half_load<false>;
  table.load_half[1] = half_load<true>;
  table.store_half[0] = half_store<false>;
  table.store_half[1] = half_store<true>;
}

} // namespace FTM_ISA
} // namespace ftm
