// Strip loops of arithmetic, logic, compares and selection: plain loops that the compiler
// vectorizes.
#pragma once

#include <initializer_list>

#include "kernels/table.h"
#include "kernels/vec.h"

namespace ftm {
namespace FTM_ISA {

// C++ element type of each Type in strip form.
template <Type> struct Element;
template <> struct Element<Type::F64> { using type = double; };
template <> struct Element<Type::F32> { using type = float; };
template <> struct Element<Type::I64> { using type = int64_t; };
template <> struct Element<Type::I32> { using type = int32_t; };
template <> struct Element<Type::I16> { using type = int16_t; };
template <> struct Element<Type::I8> { using type = int8_t; };
template <> struct Element<Type::U8> { using type = uint8_t; };
template <> struct Element<Type::B1> { using type = uint8_t; };

template <class T> struct Unsigned { using type = T; };
template <> struct Unsigned<int64_t> { using type = uint64_t; };
template <> struct Unsigned<int32_t> { using type = uint32_t; };
template <> struct Unsigned<int16_t> { using type = uint16_t; };
template <> struct Unsigned<int8_t> { using type = uint8_t; };

template <class T> constexpr bool floating = false;
template <> constexpr bool floating<float> = true;
template <> constexpr bool floating<double> = true;

// Integers wrap: computed in an unsigned type of at least 32 bits.
template <class T> struct Wide { using type = uint32_t; };
template <> struct Wide<int64_t> { using type = uint64_t; };
template <> struct Wide<float> { using type = float; };
template <> struct Wide<double> { using type = double; };

#define FTM_WRAPPING(Name, expression)                    \
  struct Name {                                           \
    template <class T> FTM_INLINE_MEMBER T of(T x, T y) { \
      using W = typename Wide<T>::type;                   \
      W a = W(x), b = W(y);                               \
      return T(expression);                               \
    }                                                     \
  };
#define FTM_INLINE_MEMBER static inline __attribute__((always_inline))
FTM_WRAPPING(Add, a + b)
FTM_WRAPPING(Sub, a - b)
FTM_WRAPPING(Mul, a * b)
#undef FTM_WRAPPING

struct Div {
  template <class T> FTM_INLINE_MEMBER T of(T a, T b) {
    if constexpr (floating<T>) return a / b;
    else if (b == 0) return 0;
    else if (T(-1) < T(0) && b == T(-1))
      return Sub::of(T(0), a); // the least integer has no positive counterpart
    else return T(a / b);
  }
};
struct Rem {
  template <class T> FTM_INLINE_MEMBER T of(T a, T b) {
    if constexpr (sizeof(T) == 4 && floating<T>) return __builtin_fmodf(a, b);
    else if constexpr (floating<T>) return __builtin_fmod(a, b);
    else if (b == 0 || (T(-1) < T(0) && b == T(-1))) return 0;
    else return T(a % b);
  }
};
// NaN if either operand is NaN. Of equal operands, such as zeros of either sign, the first.
struct Min {
  template <class T> FTM_INLINE_MEMBER T of(T a, T b) { return (b < a) | (b != b) ? b : a; }
};
struct Max {
  template <class T> FTM_INLINE_MEMBER T of(T a, T b) { return (b > a) | (b != b) ? b : a; }
};
// The number if one operand is NaN.
struct MinN {
  template <class T> FTM_INLINE_MEMBER T of(T a, T b) { return (b < a) | (a != a) ? b : a; }
};
struct MaxN {
  template <class T> FTM_INLINE_MEMBER T of(T a, T b) { return (b > a) | (a != a) ? b : a; }
};
struct And {
  template <class T> FTM_INLINE_MEMBER T of(T a, T b) { return T(a & b); }
};
struct Or {
  template <class T> FTM_INLINE_MEMBER T of(T a, T b) { return T(a | b); }
};
struct Xor {
  template <class T> FTM_INLINE_MEMBER T of(T a, T b) { return T(a ^ b); }
};
// A shift by at least the width, or by a negative count, gives 0, or the sign for an arithmetic
// shift.
struct Shl {
  template <class T> FTM_INLINE_MEMBER T of(T a, T b) {
    using U = typename Unsigned<T>::type;
    return U(b) < sizeof(T) * 8 ? T(typename Wide<T>::type(a) << b) : T(0);
  }
};
struct Shr {
  template <class T> FTM_INLINE_MEMBER T of(T a, T b) {
    using U = typename Unsigned<T>::type;
    const U most = U(sizeof(T) * 8 - 1);
    if (T(-1) > T(0) && U(b) > most) return T(0);
    return T(a >> (U(b) < most ? U(b) : most));
  }
};
struct ShrU {
  template <class T> FTM_INLINE_MEMBER T of(T a, T b) {
    using U = typename Unsigned<T>::type;
    return U(b) < sizeof(T) * 8 ? T(U(a) >> b) : T(0);
  }
};
struct CopySign {
  FTM_INLINE_MEMBER float of(float a, float b) { return __builtin_copysignf(a, b); }
  FTM_INLINE_MEMBER double of(double a, double b) { return __builtin_copysign(a, b); }
};
struct Neg {
  template <class T> FTM_INLINE_MEMBER T of(T a) {
    if constexpr (floating<T>) return -a;
    else return Sub::of(T(0), a);
  }
};
struct Abs {
  FTM_INLINE_MEMBER float of(float a) { return __builtin_fabsf(a); }
  FTM_INLINE_MEMBER double of(double a) { return __builtin_fabs(a); }
  template <class T> FTM_INLINE_MEMBER T of(T a) { return a < 0 ? Neg::of(a) : a; }
};
struct Mov {
  template <class T> FTM_INLINE_MEMBER T of(T a) { return a; }
};
struct Not {
  template <class T> FTM_INLINE_MEMBER T of(T a) { return T(~a); }
};
struct LogicalNot {
  FTM_INLINE_MEMBER uint8_t of(uint8_t a) { return a ^ 1; }
};
struct Eq {
  template <class T> FTM_INLINE_MEMBER bool of(T a, T b) { return a == b; }
};
struct Ne {
  template <class T> FTM_INLINE_MEMBER bool of(T a, T b) { return a != b; }
};
struct Lt {
  template <class T> FTM_INLINE_MEMBER bool of(T a, T b) { return a < b; }
};
struct Le {
  template <class T> FTM_INLINE_MEMBER bool of(T a, T b) { return a <= b; }
};

template <class T, class F>
void unary(void* d, const void* a, const void*, const void*, int64_t n) {
  T* out = static_cast<T*>(d);
  const T* x = static_cast<const T*>(a);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = F::of(x[i]);
}

template <class D, class T, class F, int V>
void binary(void* d, const void* a, const void* b, const void*, int64_t n) {
  D* out = static_cast<D*>(d);
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  const T x0 = x[0], y0 = y[0];
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = D(F::of(V & 1 ? x0 : x[i], V & 2 ? y0 : y[i]));
}

template <class T>
void fill(void* d, const void* a, const void*, const void*, int64_t n) {
  T* out = static_cast<T*>(d);
  const T x = *static_cast<const T*>(a);
  for (int64_t i = 0; i < n; ++i) out[i] = x;
}

template <class T, int V>
void fused(void* d, const void* a, const void* b, const void* c, int64_t n) {
  T* out = static_cast<T*>(d);
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  const T* z = static_cast<const T*>(c);
  const T x0 = x[0], y0 = y[0], z0 = z[0];
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    T u = V & 1 ? x0 : x[i], v = V & 2 ? y0 : y[i], w = V & 4 ? z0 : z[i];
    if constexpr (sizeof(T) == 4 && floating<T>) out[i] = __builtin_fmaf(u, v, w);
    else if constexpr (floating<T>) out[i] = __builtin_fma(u, v, w);
    else out[i] = Add::of(Mul::of(u, v), w);
  }
}

template <class T, int V>
void select(void* d, const void* a, const void* b, const void* c, int64_t n) {
  T* out = static_cast<T*>(d);
  const uint8_t* mask = static_cast<const uint8_t*>(a);
  const T* y = static_cast<const T*>(b);
  const T* z = static_cast<const T*>(c);
  const T y0 = y[0], z0 = z[0];
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    T v = V & 2 ? y0 : y[i], w = V & 4 ? z0 : z[i];
    out[i] = mask[i] ? v : w;
  }
}

template <class T, class F>
void put_unary(KernelTable& table, Op op, Type type) {
  table.strip[int(op)][int(type)][0] = unary<T, F>;
}
// With scalar variants, for operations that chains consist of.
template <class D, class T, class F>
void put_binary(KernelTable& table, Op op, Type type, bool variants) {
  StripFn* slot = table.strip[int(op)][int(type)];
  slot[0] = binary<D, T, F, 0>;
  if (!variants) return;
  slot[1] = binary<D, T, F, 1>;
  slot[2] = binary<D, T, F, 2>;
}

template <class T>
void put_select(KernelTable& table, Type type) {
  StripFn* slot = table.strip[int(Op::Sel)][int(type)];
  slot[0] = select<T, 0>;
  slot[2] = select<T, 2>;
  slot[4] = select<T, 4>;
  slot[6] = select<T, 6>;
}

template <class T>
void put_common(KernelTable& table, Type type) {
  const bool wide = sizeof(T) >= 4;
  put_unary<T, Mov>(table, Op::Mov, type);
  table.strip[int(Op::Mov)][int(type)][1] = fill<T>;
  put_unary<T, Neg>(table, Op::Neg, type);
  put_unary<T, Abs>(table, Op::Abs, type);
  put_binary<T, T, Add>(table, Op::Add, type, wide);
  put_binary<T, T, Sub>(table, Op::Sub, type, wide);
  put_binary<T, T, Mul>(table, Op::Mul, type, wide);
  put_binary<T, T, Div>(table, Op::Div, type, floating<T>);
  put_binary<T, T, Rem>(table, Op::Rem, type, false);
  put_binary<T, T, Min>(table, Op::Min, type, floating<T>);
  put_binary<T, T, Max>(table, Op::Max, type, floating<T>);
  put_binary<T, T, MinN>(table, Op::Minn, type, floating<T>);
  put_binary<T, T, MaxN>(table, Op::Maxn, type, floating<T>);
  StripFn* slot = table.strip[int(Op::Fma)][int(type)];
  slot[0] = fused<T, 0>;
  if (wide) {
    slot[1] = fused<T, 1>;
    slot[2] = fused<T, 2>;
    slot[4] = fused<T, 4>;
    slot[5] = fused<T, 5>;
    slot[6] = fused<T, 6>;
  }
  // a > b is b < a: compares share four loops, see the map compiler.
  put_binary<uint8_t, T, Eq>(table, Op::Cmpeq, type, wide);
  put_binary<uint8_t, T, Ne>(table, Op::Cmpne, type, wide);
  put_binary<uint8_t, T, Lt>(table, Op::Cmplt, type, wide);
  put_binary<uint8_t, T, Le>(table, Op::Cmple, type, wide);
  put_select<T>(table, type);
}

template <class T>
void put_integer(KernelTable& table, Type type) {
  put_common<T>(table, type);
  const bool wide = sizeof(T) >= 4;
  put_binary<T, T, And>(table, Op::And, type, wide);
  put_binary<T, T, Or>(table, Op::Or, type, wide);
  put_binary<T, T, Xor>(table, Op::Xor, type, wide);
  put_unary<T, Not>(table, Op::Not, type);
  put_binary<T, T, Shl>(table, Op::Shl, type, wide);
  put_binary<T, T, Shr>(table, Op::Shr, type, wide);
  put_binary<T, T, ShrU>(table, Op::Shru, type, wide);
}

static void put_arithmetic(KernelTable& table) {
  put_common<double>(table, Type::F64);
  put_common<float>(table, Type::F32);
  put_binary<double, double, CopySign>(table, Op::Copysign, Type::F64, false);
  put_binary<float, float, CopySign>(table, Op::Copysign, Type::F32, false);
  put_integer<int64_t>(table, Type::I64);
  put_integer<int32_t>(table, Type::I32);
  put_integer<int16_t>(table, Type::I16);
  put_integer<int8_t>(table, Type::I8);
  put_integer<uint8_t>(table, Type::U8);
  // Booleans are bytes 0 and 1: and, or and order are those of bytes; a sum is "or", a product
  // "and".
  for (int op = 0; op < kOps; ++op)
    for (int v = 0; v < 8; ++v)
      table.strip[op][int(Type::B1)][v] = table.strip[op][int(Type::U8)][v];
  for (Op op : {Op::Sub, Op::Neg, Op::Fma, Op::Shl, Op::Shr, Op::Shru})
    for (int v = 0; v < 8; ++v) table.strip[int(op)][int(Type::B1)][v] = nullptr;
  put_binary<uint8_t, uint8_t, Or>(table, Op::Add, Type::B1, false);
  put_binary<uint8_t, uint8_t, And>(table, Op::Mul, Type::B1, false);
  put_unary<uint8_t, LogicalNot>(table, Op::Not, Type::B1);
}

} // namespace FTM_ISA
} // namespace ftm
