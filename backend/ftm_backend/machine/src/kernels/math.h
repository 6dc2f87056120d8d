// Strip loops of the elementary functions: vectors where there is a vector version, else libm by element.
#pragma once

#include "kernels/math_f32.h"

namespace ftm {
namespace FTM_ISA {

#define FTM_VECTOR_UNARY(name, expression)                                        \
  static void name(void* d, const void* a, const void*, const void*, int64_t n) { \
    float* out = static_cast<float*>(d);                                          \
    const float* in = static_cast<const float*>(a);                               \
    int64_t i = 0;                                                                \
    for (; i + kFloats <= n; i += kFloats) {                                      \
      vf x = load<vf>(in + i);                                                    \
      store(out + i, expression);                                                 \
    }                                                                             \
    if (i < n) {                                                                  \
      vf x = load<vf>(in + i);                                                    \
      store_part(out + i, expression, n - i);                                     \
    }                                                                             \
  }
FTM_VECTOR_UNARY(exp_f32, exp_of(x))
FTM_VECTOR_UNARY(expm1_f32, expm1_of(x))
FTM_VECTOR_UNARY(exp2_f32, exp2_of(x))
FTM_VECTOR_UNARY(log_f32, log_of(x))
FTM_VECTOR_UNARY(log1p_f32, log1p_of(x))
FTM_VECTOR_UNARY(log2_f32, log2_of(x))
FTM_VECTOR_UNARY(log10_f32, log10_of(x))
FTM_VECTOR_UNARY(tanh_f32, tanh_of(x))
FTM_VECTOR_UNARY(erf_f32, erf_of(x))
#undef FTM_VECTOR_UNARY

static void pow_f32(void* d, const void* a, const void* b, const void*, int64_t n) {
  float* out = static_cast<float*>(d);
  const float* x = static_cast<const float*>(a);
  const float* y = static_cast<const float*>(b);
  int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) store(out + i, pow_of(load<vf>(x + i), load<vf>(y + i)));
  if (i < n) store_part(out + i, pow_of(load<vf>(x + i), load<vf>(y + i)), n - i);
}

template <int Quarter>
void sine_f32(void* d, const void* a, const void*, const void*, int64_t n) {
  float* out = static_cast<float*>(d);
  const float* in = static_cast<const float*>(a);
  for (int64_t i = 0; i < n; i += kFloats) {
    vf x = load<vf>(in + i);
    vf y = sine_of<Quarter>(x);
    const int64_t count = n - i < kFloats ? n - i : kFloats;
    for (int64_t j = 0; j < count; ++j) // far out the quadrant needs more digits than a double has
      if (__builtin_fabsf(x[j]) > kTrigonometricLimit) y[j] = Quarter ? __builtin_cosf(x[j]) : __builtin_sinf(x[j]);
    if (count == kFloats) store(out + i, y);
    else store_part(out + i, y, count);
  }
}

struct SqrtOf {
  FTM_INLINE_MEMBER float of(float a) { return __builtin_sqrtf(a); }
  FTM_INLINE_MEMBER double of(double a) { return __builtin_sqrt(a); }
};
struct RSqrtOf {
  template <class T> FTM_INLINE_MEMBER T of(T a) { return T(1) / SqrtOf::of(a); }
};
struct RcpOf {
  template <class T> FTM_INLINE_MEMBER T of(T a) { return T(1) / a; }
};

#define FTM_LIBM(Name, function)                                               \
  struct Name {                                                                \
    FTM_INLINE_MEMBER float of(float a) { return __builtin_##function##f(a); } \
    FTM_INLINE_MEMBER double of(double a) { return __builtin_##function(a); }  \
  };
FTM_LIBM(ExpOf, exp)
FTM_LIBM(ExpM1Of, expm1)
FTM_LIBM(Exp2Of, exp2)
FTM_LIBM(LogOf, log)
FTM_LIBM(Log1pOf, log1p)
FTM_LIBM(Log2Of, log2)
FTM_LIBM(Log10Of, log10)
FTM_LIBM(CbrtOf, cbrt)
FTM_LIBM(SinOf, sin)
FTM_LIBM(CosOf, cos)
FTM_LIBM(TanOf, tan)
FTM_LIBM(AsinOf, asin)
FTM_LIBM(AcosOf, acos)
FTM_LIBM(AtanOf, atan)
FTM_LIBM(SinhOf, sinh)
FTM_LIBM(CoshOf, cosh)
FTM_LIBM(TanhOf, tanh)
FTM_LIBM(AsinhOf, asinh)
FTM_LIBM(AcoshOf, acosh)
FTM_LIBM(AtanhOf, atanh)
FTM_LIBM(ErfOf, erf)
FTM_LIBM(ErfcOf, erfc)
FTM_LIBM(FloorOf, floor)
FTM_LIBM(CeilOf, ceil)
FTM_LIBM(RoundOf, rint)
FTM_LIBM(TruncOf, trunc)
#undef FTM_LIBM

struct Atan2Of {
  FTM_INLINE_MEMBER float of(float a, float b) { return __builtin_atan2f(a, b); }
  FTM_INLINE_MEMBER double of(double a, double b) { return __builtin_atan2(a, b); }
};
struct PowOf {
  FTM_INLINE_MEMBER double of(double a, double b) { return __builtin_pow(a, b); }
};

template <class F>
void put_both(KernelTable& table, Op op) {
  put_unary<float, F>(table, op, Type::F32);
  put_unary<double, F>(table, op, Type::F64);
}

static void put_math(KernelTable& table) {
  put_both<ExpOf>(table, Op::Exp);
  put_both<ExpM1Of>(table, Op::ExpM1);
  put_both<Exp2Of>(table, Op::Exp2);
  put_both<LogOf>(table, Op::Log);
  put_both<Log1pOf>(table, Op::Log1p);
  put_both<Log2Of>(table, Op::Log2);
  put_both<Log10Of>(table, Op::Log10);
  put_both<SqrtOf>(table, Op::Sqrt);
  put_both<RSqrtOf>(table, Op::RSqrt);
  put_both<RcpOf>(table, Op::Rcp);
  put_both<CbrtOf>(table, Op::Cbrt);
  put_both<SinOf>(table, Op::Sin);
  put_both<CosOf>(table, Op::Cos);
  put_both<TanOf>(table, Op::Tan);
  put_both<AsinOf>(table, Op::Asin);
  put_both<AcosOf>(table, Op::Acos);
  put_both<AtanOf>(table, Op::Atan);
  put_both<SinhOf>(table, Op::Sinh);
  put_both<CoshOf>(table, Op::Cosh);
  put_both<TanhOf>(table, Op::Tanh);
  put_both<AsinhOf>(table, Op::Asinh);
  put_both<AcoshOf>(table, Op::Acosh);
  put_both<AtanhOf>(table, Op::Atanh);
  put_both<ErfOf>(table, Op::Erf);
  put_both<ErfcOf>(table, Op::Erfc);
  put_both<FloorOf>(table, Op::Floor);
  put_both<CeilOf>(table, Op::Ceil);
  put_both<RoundOf>(table, Op::Round);
  put_both<TruncOf>(table, Op::Trunc);
  put_binary<float, float, Atan2Of>(table, Op::Atan2, Type::F32, false);
  put_binary<double, double, Atan2Of>(table, Op::Atan2, Type::F64, false);
  put_binary<double, double, PowOf>(table, Op::Pow, Type::F64, false);
  const auto put = [&](Op op, StripFn fn) { table.strip[int(op)][int(Type::F32)][0] = fn; };
  put(Op::Exp, exp_f32);
  put(Op::ExpM1, expm1_f32);
  put(Op::Exp2, exp2_f32);
  put(Op::Log, log_f32);
  put(Op::Log1p, log1p_f32);
  put(Op::Log2, log2_f32);
  put(Op::Log10, log10_f32);
  put(Op::Tanh, tanh_f32);
  put(Op::Erf, erf_f32);
  put(Op::Pow, pow_f32);
  put(Op::Sin, sine_f32<0>);
  put(Op::Cos, sine_f32<1>);
}

} // namespace FTM_ISA
} // namespace ftm
