// Strip loops of elementary functions: vectorized if there is a vector version, else libm per
// element.
#pragma once

#include <utility>

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
    for (int64_t j = 0; j < count; ++j) // large arguments need more digits than a double has
      if (__builtin_fabsf(x[j]) > kTrigonometricLimit)
        y[j] = Quarter ? __builtin_cosf(x[j]) : __builtin_sinf(x[j]);
    if (count == kFloats) store(out + i, y);
    else store_part(out + i, y, count);
  }
}

// An elementwise kernel for F32 and F64. Specializing it is all that adds a function to the table.
template <Op> struct Function { static constexpr bool absent = true; };
struct Present { static constexpr bool absent = false; };

template <> struct Function<Op::Sqrt> : Present {
  FTM_INLINE_MEMBER float of(float a) { return __builtin_sqrtf(a); }
  FTM_INLINE_MEMBER double of(double a) { return __builtin_sqrt(a); }
};
template <> struct Function<Op::Rsqrt> : Present {
  template <class T> FTM_INLINE_MEMBER T of(T a) { return T(1) / Function<Op::Sqrt>::of(a); }
};
template <> struct Function<Op::Rcp> : Present {
  template <class T> FTM_INLINE_MEMBER T of(T a) { return T(1) / a; }
};

#define FTM_LIBM(Name, function)                                               \
  template <> struct Function<Op::Name> : Present {                            \
    FTM_INLINE_MEMBER float of(float a) { return __builtin_##function##f(a); } \
    FTM_INLINE_MEMBER double of(double a) { return __builtin_##function(a); }  \
  };
FTM_LIBM(Exp, exp)
FTM_LIBM(Expm1, expm1)
FTM_LIBM(Exp2, exp2)
FTM_LIBM(Log, log)
FTM_LIBM(Log1p, log1p)
FTM_LIBM(Log2, log2)
FTM_LIBM(Log10, log10)
FTM_LIBM(Cbrt, cbrt)
FTM_LIBM(Sin, sin)
FTM_LIBM(Cos, cos)
FTM_LIBM(Tan, tan)
FTM_LIBM(Asin, asin)
FTM_LIBM(Acos, acos)
FTM_LIBM(Atan, atan)
FTM_LIBM(Sinh, sinh)
FTM_LIBM(Cosh, cosh)
FTM_LIBM(Asinh, asinh)
FTM_LIBM(Acosh, acosh)
FTM_LIBM(Atanh, atanh)
FTM_LIBM(Erf, erf)
FTM_LIBM(Erfc, erfc)
FTM_LIBM(Floor, floor)
FTM_LIBM(Ceil, ceil)
FTM_LIBM(Round, rint)
FTM_LIBM(Trunc, trunc)
#undef FTM_LIBM

template <> struct Function<Op::Tanh> : Present {
  FTM_INLINE_MEMBER float of(float a) { return __builtin_tanhf(a); }
  // libm's last digit can be wrong, so that a - tanh(a) would have the wrong sign near 0.
  FTM_INLINE_MEMBER double of(double a) {
    if (__builtin_fabs(a) >= 0x1p-13) return __builtin_tanh(a);
    return __builtin_copysign(a - a * a * a * (1.0 / 3.0), a); // -0 stays -0
  }
};
template <> struct Function<Op::Atan2> : Present {
  FTM_INLINE_MEMBER float of(float a, float b) { return __builtin_atan2f(a, b); }
  FTM_INLINE_MEMBER double of(double a, double b) { return __builtin_atan2(a, b); }
};
template <> struct Function<Op::Pow> : Present {
  FTM_INLINE_MEMBER float of(float a, float b) { return __builtin_powf(a, b); }
  FTM_INLINE_MEMBER double of(double a, double b) { return __builtin_pow(a, b); }
};

template <Op op>
void put_function(KernelTable& table) {
  using F = Function<op>;
  if constexpr (F::absent) {
    return;
  } else if constexpr (isa::kStrips[int(op)].operands == 1) {
    put_unary<float, F>(table, op, Type::F32);
    put_unary<double, F>(table, op, Type::F64);
  } else {
    put_binary<float, float, F>(table, op, Type::F32, false);
    put_binary<double, double, F>(table, op, Type::F64, false);
  }
}
template <size_t... I>
void put_functions(KernelTable& table, std::index_sequence<I...>) {
  (put_function<Op(I)>(table), ...);
}

static void put_math(KernelTable& table) {
  put_functions(table, std::make_index_sequence<kOps>());
  const auto put = [&](Op op, StripFn fn) { table.strip[int(op)][int(Type::F32)][0] = fn; };
  put(Op::Exp, exp_f32);
  put(Op::Expm1, expm1_f32);
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
