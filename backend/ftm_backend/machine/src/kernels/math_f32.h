// Elementary functions on vectors of floats.
//
// Coefficients are weighted minimax fits made for this file. Errors are about 1 ulp
// (tests/machine/test_math.py measures them). Functions that would lose more in float32 work on two
// vectors of doubles.
#pragma once

#include "kernels/arithmetic.h"
#include "kernels/erf_pieces.h"

namespace ftm {
namespace FTM_ISA {

FTM_INLINE vf infinity_f() {
  return splat(__builtin_inff());
}
FTM_INLINE vf nan_f() {
  return splat(__builtin_nanf(""));
}

// 2^n * exp(r), |r| <= ln(2)/2
FTM_INLINE vf exp_core(vf r, vf n) {
  static const float c[] = {
      0.500000009516549029f, 0.166665188515573229f, 0.0416662058732681999f, 0.00836888786265278767f,
      0.00139504862251936112f};
  vf p = polynomial(r, c);
  vf y = fma(p, r * r, r) + 1.0f;
  return scale(y, __builtin_convertvector(n, vi));
}
// Values that round to zero are not computed: products in the subnormal range are a hundred times
// slower, and scores that a mask has set to -inf are frequent.
FTM_INLINE vf exp_of(vf x) {
  vi vanishes = x < -104.0f;
  vf y = x > 89.0f ? splat(89.0f) : x; // NaN stays
  y = vanishes ? splat(0.0f) : y;
  vf n = nearest(y * 1.44269504088896341f);
  vf r = fma(n, splat(-0.693145751953125f), y);
  r = fma(n, splat(-1.42860682030941723e-06f), r);
  return vanishes ? splat(0.0f) : exp_core(r, n);
}
FTM_INLINE vf exp2_of(vf x) {
  vi vanishes = x < -151.0f;
  vf y = x > 129.0f ? splat(129.0f) : x;
  y = vanishes ? splat(0.0f) : y;
  vf n = nearest(y);
  return vanishes ? splat(0.0f) : exp_core((y - n) * 0.693147180559945309f, n);
}

// x = m * 2^e with m in [sqrt(1/2), sqrt(2)), for x > 0 including subnormals.
FTM_INLINE vf split(vf x, vf& e) {
  vi small = x < 1.17549435e-38f;
  vf y = small ? x * 8388608.0f : x;
  vi k = difference(bits(y), broadcast<vi>(0x3f3504f3)) >> 23; // floor(log2(y / sqrt(1/2)))
  e = __builtin_convertvector(k - (small & 23), vf);
  return (vf)difference(bits(y), k << 23);
}
FTM_INLINE vf log_edges(vf x, vf y) {
  y = x == 0.0f ? -infinity_f() : y;
  y = x < 0.0f ? nan_f() : y;
  y = x == infinity_f() ? x : y;
  return x != x ? x : y;
}
FTM_INLINE vf log_poly(vf f) {
  static const float c[] = {0.333333119654517802f,  -0.250000087158650526f, 0.20002167137255881f,
                            -0.166680901622208637f, 0.142185529297358896f,  -0.124030863302363832f,
                            0.11893524951545036f,   -0.116943244350737682f, 0.0675753088275289549f};
  return polynomial(f, c);
}
FTM_INLINE vf log_of(vf x) {
  vf e;
  vf f = split(x, e) - 1.0f;
  vf z = f * f;
  vf y = fma(log_poly(f) * f, z, e * -2.12194440e-4f);
  y = fma(z, splat(-0.5f), y);
  return log_edges(x, fma(e, splat(0.693359375f), f + y));
}

FTM_INLINE vf with_sign_of(vf x, vf y) {
  return (vf)((bits(y) & 0x7fffffff) | (bits(x) & int32_t(0x80000000)));
}

FTM_INLINE vf tanh_of(vf x) {
  static const float c[] = {-0.333333296135353183f,   0.133331578925945197f,
                            -0.0539405627697813432f,  0.0216663450443961658f,
                            -0.00809196438239783517f, 0.0020646620344559996f};
  vf a = (vf)(bits(x) & 0x7fffffff);
  vf z = a * a;
  vf small = fma(polynomial(z, c) * z, a, a);
  vf large = 1.0f - 2.0f / (exp_of(a + a) + 1.0f);
  return with_sign_of(x, a < 0.625f ? small : large);
}

// Element `index` % 16 of a table, in each lane.
FTM_INLINE vf look_up(const float (&table)[16], vi index) {
#if defined(__AVX512F__)
  return (vf)_mm512_permutexvar_ps((__m512i)index, _mm512_load_ps(table));
#elif defined(__AVX2__)
  const __m256i at = (__m256i)index;
  const __m256 low = _mm256_permutevar8x32_ps(_mm256_load_ps(table), at);
  const __m256 high = _mm256_permutevar8x32_ps(_mm256_load_ps(table + 8), at);
  return (vf)_mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(at, 28)));
#else
  vf r;
  for (int i = 0; i < kFloats; ++i) r[i] = table[index[i] & 15];
  return r;
#endif
}

FTM_INLINE vf erf_of(vf x) {
  vf a = (vf)(bits(x) & 0x7fffffff);
  a = a > kErfLimit ? splat(kErfLimit) : a; // NaN stays
  const vf number = fma(a, splat(kErfPerPiece), splat(8388608.0f)); // its low bits are the piece
  const vf n = number - 8388608.0f;
  const vf t = fma(n, splat(-kErfWidth), a);
  vf p = look_up(kErfPieces[kErfCoefficients - 1], bits(number));
#pragma GCC unroll 8
  for (int k = kErfCoefficients - 2; k > 0; --k)
    p = fma(p, t, look_up(kErfPieces[k], bits(number)));
  const vf base = n == 0.0f ? t : look_up(kErfPieces[0], bits(number));
  return (vf)(bits(fma(p, t, base)) | (bits(x) & int32_t(0x80000000)));
}

// --- through doubles
// ----------------------------------------------------------------------------------

FTM_INLINE vd exp_of(vd x) {
  static const double c[] = {0.499999999999998765,     0.166666666666690842,
                             0.0416666666667671956,    0.0083333333317712575,
                             0.0013888888875746173,    0.000198412734661102891,
                             0.0000248015692037826145, 2.75537856292051145e-6,
                             2.76013537637529456e-7,   2.62828308238934502e-8};
  vl vanishes = x < -746.0;
  vd y = x > 710.0 ? splat(710.0) : x;
  y = vanishes ? splat(0.0) : y;
  vd n = nearest(y * 1.44269504088896340736);
  vd r = fma(n, splat(-0x1.62e42fefap-1), y);
  r = fma(n, splat(-0x1.cf79abc9e3b39803p-40), r);
  vd e = fma(polynomial(r, c), r * r, r) + 1.0;
  return vanishes ? splat(0.0) : scale(e, whole(n));
}

// For normal x > 0.
FTM_INLINE vd log_positive(vd x) {
  static const double c[] = {0.666666666666788469, 0.399999999926294746, 0.285714300588618525,
                             0.222220816388457368, 0.181888203696453854, 0.151974850643075588,
                             0.158101146588342808};
  // As a float, because AVX2 can neither shift 64-bit integers arithmetically nor convert them.
  vl offset = difference(bits(x), broadcast<vl>(0x3fe6a09e667f3bcd - (int64_t(1) << 62)));
  vl raised = (vl)((Vec<uint64_t>)offset >> 52);
  vl k = raised - 1024;
  vd e = (vd)(raised + 0x4330000000000000) - 4503599627370496.0 - 1024.0;
  vd m = (vd)difference(bits(x), k << 52);
  vd s = (m - 1.0) / (m + 1.0);
  vd z = s * s;
  vd y = fma(polynomial(z, c) * z, s, s + s);
  return fma(e, splat(0.693147180559945309417), y);
}

// Applies f to the two halves of x, widened.
template <class F>
FTM_INLINE vf widened(vf x, F f) {
  half_vf low, high, parts[2];
  __builtin_memcpy(parts, &x, sizeof x);
  low = __builtin_convertvector(f(__builtin_convertvector(parts[0], vd)), half_vf);
  high = __builtin_convertvector(f(__builtin_convertvector(parts[1], vd)), half_vf);
  parts[0] = low;
  parts[1] = high;
  vf y;
  __builtin_memcpy(&y, parts, sizeof y);
  return y;
}

FTM_INLINE vf expm1_of(vf x) {
  vf y = widened(x, [](vd v) {
    vd a = (vd)(bits(v) & 0x7fffffffffffffff);
    vd small = fma(fma(v, splat(1.0 / 6.0), splat(0.5)) * v, v, v);
    return a < 1e-4 ? small : exp_of(v) - 1.0;
  });
  return x == 0.0f ? x : y; // keeps the sign of zero
}
FTM_INLINE vf log1p_of(vf x) {
  vf y = widened(x, [](vd v) {
    vd a = (vd)(bits(v) & 0x7fffffffffffffff);
    vd small = fma(fma(v, splat(1.0 / 3.0), splat(-0.5)) * v, v, v);
    return a < 1e-4 ? small : log_positive(v + 1.0);
  });
  y = x == -1.0f ? -infinity_f() : y;
  y = x < -1.0f ? nan_f() : y;
  y = x == infinity_f() ? x : y;
  return x != x ? x : y;
}
FTM_INLINE vf log2_of(vf x) {
  return log_edges(x, widened(x, [](vd v) { return log_positive(v) * 1.44269504088896340736; }));
}
FTM_INLINE vf log10_of(vf x) {
  return log_edges(x, widened(x, [](vd v) { return log_positive(v) * 0.434294481903251827651; }));
}

// sin(x), or cos(x) if quarter = 1; for |x| up to kTrigonometricLimit.
constexpr float kTrigonometricLimit = 1e6f;
template <int Quarter>
FTM_INLINE vf sine_of(vf x) {
  vf y = widened(x, [](vd v) {
    static const double s[] = {
        -0.166666666415264166, 0.0083333293740845947, -0.00019839330987414739,
        2.71827439696259448e-6};
    static const double c[] = {
        0.0416666666226515401, -0.00138888837379427065, 0.0000247995158687982368,
        -2.72098913907870246e-7};
    vd n = nearest(v * 0.636619772367581343);
    vd r = fma(n, splat(-1.57079632679489655800), v);
    r = fma(n, splat(-6.12323399573676603587e-17), r);
    vl q = whole(n) + Quarter;
    vd z = r * r;
    vd sine = fma(polynomial(z, s) * z, r, r);
    vd cosine = fma(polynomial(z, c) * z, z, fma(z, splat(-0.5), splat(1.0)));
    vd y = (q & 1) != 0 ? cosine : sine;
    return (vd)(bits(y) ^ ((q & 2) << 62));
  });
  return Quarter == 0 ? (x == 0.0f ? x : y) : y; // keeps the sign of zero
}

// x^y for every pair, with the special cases of IEEE 754.
FTM_INLINE vf pow_of(vf x, vf y) {
  vf a = (vf)(bits(x) & 0x7fffffff);
  half_vf xs[2], ys[2];
  __builtin_memcpy(xs, &a, sizeof a);
  __builtin_memcpy(ys, &y, sizeof y);
  for (int i = 0; i < 2; ++i) {
    vd base = __builtin_convertvector(xs[i], vd); // float32 subnormals are normal in float64
    vd power = __builtin_convertvector(ys[i], vd);
    vd l = log_positive(base);
    l = base == 0.0 ? splat(-__builtin_inf()) : l;
    l = base == __builtin_inf() ? base : l;
    xs[i] = __builtin_convertvector(exp_of(l * power), half_vf);
  }
  vf r;
  __builtin_memcpy(&r, xs, sizeof r);
  vf b = (vf)(bits(y) & 0x7fffffff);
  vi even = b >= 16777216.0f; // all floats from 2^24 on are even
  vf rest = even ? splat(0.0f) : b;
  vi k = __builtin_convertvector(rest, vi);
  vi integer = even | (__builtin_convertvector(k, vf) == rest);
  vi odd = ~even & integer & -(k & 1);
  vi negative = bits(x) < 0;
  r = (negative & odd) != 0 ? -r : r;
  vi finite_base = (a < __builtin_inff()) & (a > 0.0f);
  r = (negative & finite_base & ~integer) != 0 ? nan_f() : r;
  // inf^0, 0^0 and (-1)^inf gave inf * 0; a NaN operand gives NaN unless it cannot matter.
  r = (x != x) | (y != y) ? x + y : r;
  r = (a == 1.0f) & (b == __builtin_inff()) ? splat(1.0f) : r;
  return (y == 0.0f) | (x == 1.0f) ? splat(1.0f) : r;
}

} // namespace FTM_ISA
} // namespace ftm
