// Reductions of strips.
//
// A float32 sum runs in many float32 lanes over at most one strip, then in float64, so its error is
// about one rounding at any length.
#pragma once

#include <limits>

#include "kernels/arithmetic.h"

namespace ftm {
namespace FTM_ISA {

FTM_INLINE double& state(Accumulator& acc, double) {
  return acc.f;
}
FTM_INLINE int64_t& state(Accumulator& acc, int64_t) {
  return acc.i;
}

template <class T> struct StateOf { using type = int64_t; };
template <> struct StateOf<float> { using type = double; };
template <> struct StateOf<double> { using type = double; };

template <class T, class F>
void reduce_plain(Accumulator* acc, const void* a, int64_t n) {
  using S = typename StateOf<T>::type;
  const T* x = static_cast<const T*>(a);
  S s = state(*acc, S());
  for (int64_t i = 0; i < n; ++i) s = F::of(s, S(x[i]));
  state(*acc, S()) = s;
}

// The operations of reductions in lanes. start: the value that changes nothing.
struct LaneAdd {
  template <class T> FTM_INLINE_MEMBER T start() { return T(-0.0); }
  template <class V> FTM_INLINE_MEMBER V of(V a, V b) { return a + b; }
};
struct LaneMin {
  template <class T> FTM_INLINE_MEMBER T start() { return std::numeric_limits<T>::infinity(); }
  template <class V> FTM_INLINE_MEMBER V of(V a, V b) { return (a < b) | (a != a) ? a : b; }
};
struct LaneMax {
  template <class T> FTM_INLINE_MEMBER T start() { return -std::numeric_limits<T>::infinity(); }
  template <class V> FTM_INLINE_MEMBER V of(V a, V b) { return (a > b) | (a != a) ? a : b; }
};
// Combines all lanes of a vector as float64, by halves. In registers: there is one such vector for
// each row of a matrix that is reduced, or multiplied by a vector.
template <class F, class V>
FTM_INLINE double across_halves(V v) {
  if constexpr (sizeof v == 64)
    return across_halves<F>(F::of(
        __builtin_shufflevector(v, v, 0, 1, 2, 3), __builtin_shufflevector(v, v, 4, 5, 6, 7)));
  else if constexpr (sizeof v == 32)
    return across_halves<F>(
        F::of(__builtin_shufflevector(v, v, 0, 1), __builtin_shufflevector(v, v, 2, 3)));
  else return F::of(v[0], v[1]);
}
template <class F>
FTM_INLINE double across(vd v) {
  return across_halves<F>(v);
}
template <class F>
FTM_INLINE double across(vf v) {
  half_vf parts[2];
  __builtin_memcpy(parts, &v, sizeof v);
  return across<F>(
      F::of(__builtin_convertvector(parts[0], vd), __builtin_convertvector(parts[1], vd)));
}

// Four accumulators hide the latency of the operation. Vectors behind the last group of four go to
// the first one; elements of an incomplete vector count as a whole one. Translated code adds in the
// same order (native/vector_code.h).
template <class T, class F>
void reduce_lanes(Accumulator* acc, const void* a, int64_t n) {
  using V = Vec<T>;
  constexpr int64_t L = VectorOf<T>::lanes;
  const T* x = static_cast<const T*>(a);
  const T start = F::template start<T>();
  V v0 = broadcast<V>(start), v1 = v0, v2 = v0, v3 = v0;
  int64_t i = 0;
  for (; i + 4 * L <= n; i += 4 * L) {
    v0 = F::of(v0, load<V>(x + i));
    v1 = F::of(v1, load<V>(x + i + L));
    v2 = F::of(v2, load<V>(x + i + 2 * L));
    v3 = F::of(v3, load<V>(x + i + 3 * L));
  }
  for (; i + L <= n; i += L) v0 = F::of(v0, load<V>(x + i));
  if (i < n) {
    T rest[L];
    for (int64_t k = 0; k < L; ++k) rest[k] = i + k < n ? x[i + k] : start;
    v0 = F::of(v0, load<V>(rest));
  }
  acc->f = F::of(acc->f, across<F>(F::of(F::of(v0, v1), F::of(v2, v3))));
}

template <class F>
void fold_lanes(
    Accumulator* acc, int64_t acc_step, const float* lanes, int64_t lanes_step, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i, acc += acc_step, lanes += lanes_step)
    acc->f = F::of(acc->f, across<F>(load<vf>(lanes)));
}

struct LogicalAnd {
  FTM_INLINE_MEMBER double of(double a, double b) { return double(a != 0.0 && b != 0.0); }
  FTM_INLINE_MEMBER int64_t of(int64_t a, int64_t b) { return a & b; }
};
struct LogicalOr {
  FTM_INLINE_MEMBER double of(double a, double b) { return double(a != 0.0 || b != 0.0); }
  FTM_INLINE_MEMBER int64_t of(int64_t a, int64_t b) { return a | b; }
};

template <class T, class F>
void columns_plain(Accumulator* acc, const void* a, int64_t rows, int64_t columns) {
  using S = typename StateOf<T>::type;
  S* s = reinterpret_cast<S*>(acc);
  const T* x = static_cast<const T*>(a);
  for (int64_t i = 0; i < rows; ++i, x += columns) {
#pragma GCC ivdep
    for (int64_t j = 0; j < columns; ++j) s[j] = F::of(s[j], S(x[j]));
  }
}

// Up to 32 rows are added in float32 before they are added to the float64 state.
static void columns_sum_f32(Accumulator* acc, const void* a, int64_t rows, int64_t columns) {
  constexpr int64_t kBlock = 256;
  float part[kBlock];
  const float* x = static_cast<const float*>(a);
  double* s = reinterpret_cast<double*>(acc);
  for (int64_t j = 0; j < columns; j += kBlock) {
    const int64_t width = columns - j < kBlock ? columns - j : kBlock;
    for (int64_t i = 0; i < rows; i += 32) {
      const int64_t end = rows - i < 32 ? rows : i + 32;
      for (int64_t c = 0; c < width; ++c) part[c] = x[i * columns + j + c];
      for (int64_t r = i + 1; r < end; ++r)
        for (int64_t c = 0; c < width; ++c) part[c] += x[r * columns + j + c];
      for (int64_t c = 0; c < width; ++c) s[j + c] += double(part[c]);
    }
  }
}

template <Type E>
void put_reductions_of(KernelTable& table) {
  using T = typename Element<E>::type;
  const auto put = [&](Reduction r, ReduceFn reduce, ColumnsFn columns) {
    table.reduce[int(r)][int(E)] = reduce;
    table.columns[int(r)][int(E)] = columns;
  };
  put(Reduction::Sum, reduce_plain<T, Add>, columns_plain<T, Add>);
  put(Reduction::Prod, reduce_plain<T, Mul>, columns_plain<T, Mul>);
  put(Reduction::Min, reduce_plain<T, Min>, columns_plain<T, Min>);
  put(Reduction::Max, reduce_plain<T, Max>, columns_plain<T, Max>);
  put(Reduction::And, reduce_plain<T, LogicalAnd>, columns_plain<T, LogicalAnd>);
  put(Reduction::Or, reduce_plain<T, LogicalOr>, columns_plain<T, LogicalOr>);
  if constexpr (floating<T>) {
    table.reduce[int(Reduction::Sum)][int(E)] = reduce_lanes<T, LaneAdd>;
    table.reduce[int(Reduction::Min)][int(E)] = reduce_lanes<T, LaneMin>;
    table.reduce[int(Reduction::Max)][int(E)] = reduce_lanes<T, LaneMax>;
  }
}

static void put_reductions(KernelTable& table) {
  put_reductions_of<Type::F64>(table);
  put_reductions_of<Type::F32>(table);
  put_reductions_of<Type::I64>(table);
  put_reductions_of<Type::I32>(table);
  put_reductions_of<Type::I16>(table);
  put_reductions_of<Type::I8>(table);
  put_reductions_of<Type::U8>(table);
  put_reductions_of<Type::B1>(table);
  table.columns[int(Reduction::Sum)][int(Type::F32)] = columns_sum_f32;
  table.fold[int(Reduction::Sum)] = fold_lanes<LaneAdd>;
  table.fold[int(Reduction::Min)] = fold_lanes<LaneMin>;
  table.fold[int(Reduction::Max)] = fold_lanes<LaneMax>;
}

} // namespace FTM_ISA
} // namespace ftm
