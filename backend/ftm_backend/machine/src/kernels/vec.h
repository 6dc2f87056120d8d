// Vectors of the width that this translation unit is compiled for, by GCC's vector extensions.
//
// Everything in kernels/ is in a namespace named by FTM_ISA, so that the linker never replaces code
// for one instruction set by another's.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace ftm {
namespace FTM_ISA {

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX2__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kBytes)));
  static constexpr int lanes = kBytes / int(sizeof(T));
};
template <class T>
using Vec = typename VectorOf<T>::type;

using vf = Vec<float>;
using vd = Vec<double>;
using vi = Vec<int32_t>;
using vl = Vec<int64_t>;
constexpr int kFloats = VectorOf<float>::lanes;
constexpr int kDoubles = VectorOf<double>::lanes;
typedef float half_vf
    __attribute__((vector_size(kBytes / 2))); // as many floats as a vd has doubles

#define FTM_INLINE static inline __attribute__((always_inline))

template <class V>
FTM_INLINE V load(const void* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class V>
FTM_INLINE void store(void* p, V v) {
  __builtin_memcpy(p, &v, sizeof v);
}
// Loads the first `count` lanes only.
template <class T, class V>
FTM_INLINE void store_part(T* p, V v, int64_t count) {
  for (int64_t i = 0; i < count; ++i) p[i] = v[i];
}

// x in every lane. x - 0 is x for all x, so the compiler emits one broadcasting load. 0 + x would
// emit an addition and a shuffle, which occupy the units that products need, and lose the sign of
// -0.
template <class V, class T>
FTM_INLINE V broadcast(T x) {
  return x - V{};
}
FTM_INLINE vf splat(float x) {
  return broadcast<vf>(x);
}
FTM_INLINE vd splat(double x) {
  return broadcast<vd>(x);
}

FTM_INLINE vi bits(vf v) {
  return (vi)v;
}
FTM_INLINE vl bits(vd v) {
  return (vl)v;
}
// a - b of the bits of any float, including NaN: unsigned, since it may wrap.
FTM_INLINE vi difference(vi a, vi b) {
  return (vi)((Vec<uint32_t>)a - (Vec<uint32_t>)b);
}
FTM_INLINE vl difference(vl a, vl b) {
  return (vl)((Vec<uint64_t>)a - (Vec<uint64_t>)b);
}

// a * b + c, rounded once if the hardware has FMA. For polynomials; VFMA has its own loop.
FTM_INLINE vf fma(vf a, vf b, vf c) {
#if defined(__AVX512F__)
  return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__) && defined(__AVX2__)
  return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}
FTM_INLINE vd fma(vd a, vd b, vd c) {
#if defined(__AVX512F__)
  return (vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__) && defined(__AVX2__)
  return (vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
  return a * b + c;
#endif
}
template <class V>
FTM_INLINE V fma(V a, V b, V c) {
  return a * b + c;
}

// c[0] + x * c[1] + ...
template <class V, int N, class T>
FTM_INLINE V polynomial(V x, const T (&c)[N]) {
  V p = broadcast<V>(c[N - 1]);
  for (int i = N - 2; i >= 0; --i) p = fma(p, x, broadcast<V>(c[i]));
  return p;
}

// Nearest integer, ties to even, for |x| below 2^22 (float) or 2^51 (double).
FTM_INLINE vf nearest(vf x) {
  const vf magic = splat(12582912.0f);
  return (x + magic) - magic;
}
FTM_INLINE vd nearest(vd x) {
  const vd magic = splat(6755399441055744.0);
  return (x + magic) - magic;
}

// x * 2^n in two steps, so that subnormal results and n up to twice the exponent range are right.
FTM_INLINE vf scale(vf x, vi n) {
  vi first = n >> 1;
  vi second = n - first;
  return x * (vf)((first + 127) << 23) * (vf)((second + 127) << 23);
}
FTM_INLINE vd scale(vd x, vl n) {
  vl first = n >> 1;
  vl second = n - first;
  return x * (vd)((first + 1023) << 52) * (vd)((second + 1023) << 52);
}
// The integer that `nearest` left in a double.
FTM_INLINE vl whole(vd x) {
  return bits(x + 6755399441055744.0) - bits(splat(6755399441055744.0));
}

} // namespace FTM_ISA
} // namespace ftm
