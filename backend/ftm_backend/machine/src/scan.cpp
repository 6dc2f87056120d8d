// SCAN: inclusive scans along rows or down columns, with a carry from tile to tile.
//
// Sums and products are kept in float64 or int64, like reductions, and rounded when stored.
#include <cmath>
#include <limits>

#include "checker.h"
#include "core_state.h"
#include "half.h"
#include "isa_gen.h"

namespace ftm {
namespace {

// Conversion of elements to the carry's type and back; halves through float32.
template <class T>
struct Plain {
  using Stored = T;
  template <class A>
  static A load(T x) {
    return A(x);
  }
  template <class A>
  static T store(A x) {
    return T(x);
  }
};
struct Half {
  using Stored = uint16_t;
  template <class A>
  static A load(uint16_t x) {
    return f16_to_float(x);
  }
  template <class A>
  static uint16_t store(A x) {
    return float_to_f16(float(x));
  }
};
struct Brain {
  using Stored = uint16_t;
  template <class A>
  static A load(uint16_t x) {
    return bf16_to_float(x);
  }
  template <class A>
  static uint16_t store(A x) {
    return float_to_bf16(float(x));
  }
};

struct Add {
  static double apply(double a, double x) { return a + x; }
  static int64_t apply(int64_t a, int64_t x) { return int64_t(uint64_t(a) + uint64_t(x)); }
};
struct Mul {
  static double apply(double a, double x) { return a * x; }
  static int64_t apply(int64_t a, int64_t x) { return int64_t(uint64_t(a) * uint64_t(x)); }
};
struct Min {
  static double apply(double a, double x) { return (x <= a) | (x != x) ? x : a; }
  static int64_t apply(int64_t a, int64_t x) { return x <= a ? x : a; }
};
struct Max {
  static double apply(double a, double x) { return (x >= a) | (x != x) ? x : a; }
  static int64_t apply(int64_t a, int64_t x) { return x >= a ? x : a; }
};
struct Lse {
  static double apply(double a, double x) {
    if (a != a || x != x) return a + x;
    const double low = x < a ? x : a, high = x < a ? a : x;
    // Equal infinities would give inf - inf.
    return low == high && std::isinf(low) ? high : high + std::log1p(std::exp(low - high));
  }
};

// Scans R rows at once, to hide the latency of each row's chain of operations.
template <int R, class E, class F, class A>
void along(
    const typename E::Stored* x, int64_t x_row, typename E::Stored* y, int64_t y_row, A* carry,
    int64_t carry_row, int64_t n) {
  A a[R];
  for (int r = 0; r < R; ++r) a[r] = carry[r * carry_row];
  for (int64_t j = 0; j < n; ++j)
    for (int r = 0; r < R; ++r) {
      a[r] = F::apply(a[r], E::template load<A>(x[r * x_row + j]));
      y[r * y_row + j] = E::template store<A>(a[r]);
    }
  for (int r = 0; r < R; ++r) carry[r * carry_row] = a[r];
}

struct Place {
  const uint8_t* x;
  uint8_t* y;
  uint8_t* carry;
  int64_t x_row, y_row, carry_row; // distances of rows, in elements
  int64_t rows, columns;
  bool down;
};

template <class E, class F, class A>
void scan(const Place& p) {
  using T = typename E::Stored;
  const T* x = reinterpret_cast<const T*>(p.x);
  T* y = reinterpret_cast<T*>(p.y);
  A* carry = reinterpret_cast<A*>(p.carry);
  if (p.down) {
    for (int64_t i = 0; i < p.rows; ++i, x += p.x_row, y += p.y_row)
      for (int64_t j = 0; j < p.columns; ++j) {
        carry[j] = F::apply(carry[j], E::template load<A>(x[j]));
        y[j] = E::template store<A>(carry[j]);
      }
    return;
  }
  int64_t i = 0;
  for (; i + 4 <= p.rows; i += 4, x += 4 * p.x_row, y += 4 * p.y_row, carry += 4 * p.carry_row)
    along<4, E, F, A>(x, p.x_row, y, p.y_row, carry, p.carry_row, p.columns);
  for (; i < p.rows; ++i, x += p.x_row, y += p.y_row, carry += p.carry_row)
    along<1, E, F, A>(x, p.x_row, y, p.y_row, carry, p.carry_row, p.columns);
}

template <class E, class A>
void choose(const Place& p, uint16_t what) {
  if (what == isa::FTM_FLAG_ADD) return scan<E, Add, A>(p);
  if (what == isa::FTM_FLAG_MUL) return scan<E, Mul, A>(p);
  if (what == isa::FTM_FLAG_MIN) return scan<E, Min, A>(p);
  if (what == isa::FTM_FLAG_MAX) return scan<E, Max, A>(p);
  if constexpr (std::is_same_v<A, double>) scan<E, Lse, A>(p);
}

void scan_tile(const Place& p, Type type, uint16_t what) {
  switch (type) {
    case Type::F64: return choose<Plain<double>, double>(p, what);
    case Type::F32: return choose<Plain<float>, double>(p, what);
    case Type::F16: return choose<Half, double>(p, what);
    case Type::BF16: return choose<Brain, double>(p, what);
    case Type::I64: return choose<Plain<int64_t>, int64_t>(p, what);
    case Type::I32: return choose<Plain<int32_t>, int64_t>(p, what);
    case Type::I16: return choose<Plain<int16_t>, int64_t>(p, what);
    case Type::I8: return choose<Plain<int8_t>, int64_t>(p, what);
    case Type::U8: return choose<Plain<uint8_t>, int64_t>(p, what);
    case Type::B1: return choose<Plain<bool>, int64_t>(p, what);
  }
}

} // namespace

void run_scan(Core& core, const Matrix& operands, uint16_t flags) {
  const TileDecl& tx = core.tile(operands.a.tile);
  const TileDecl& tc = core.tile(operands.b.tile);
  const TileDecl& ty = core.tile(operands.c.tile);
  const int32_t x_number = core.number(operands.a), c_number = core.number(operands.b),
                y_number = core.number(operands.c);
  const Slot x = core.slot(operands.a.tile, x_number), carry = core.slot(operands.b.tile, c_number);
  Slot& y = core.slot(operands.c.tile, y_number);
  const bool down = flags & isa::FTM_FLAG_DOWN;
  const int32_t wanted_rows = down ? 1 : int32_t(x.rows),
                wanted_columns = down ? int32_t(x.columns) : 1;
  if (carry.rows != wanted_rows || carry.columns != wanted_columns)
    throw Fault(
        "the carry of " + extents(x.rows, x.columns) + " is " +
        extents(wanted_rows, wanted_columns) + ", but " + tc.name + " holds " +
        extents(carry.rows, carry.columns));
  if (x.rows > ty.rows || x.columns > ty.columns)
    throw Fault(
        extents(x.rows, x.columns) + " exceeds tile " + ty.name + ", which is " +
        extents(ty.rows, ty.columns));
  // Y may be X, as every element is read before it is written.
  if (operands.a.tile != operands.c.tile || x_number != y_number)
    core.refuse_overlap("Y", operands.c.tile, y_number, operands.a.tile, x_number);
  core.refuse_overlap("the carry", operands.b.tile, c_number, operands.a.tile, x_number);
  core.refuse_overlap("the carry", operands.b.tile, c_number, operands.c.tile, y_number);
  if (core.checker) core.checker->scan(operands, x_number, c_number, y_number);
  y.set_extents(x.rows, x.columns);
  scan_tile(
      {x.base, y.base, carry.base, tx.columns, ty.columns, tc.columns, x.rows, x.columns, down},
      tx.type, uint16_t(flags & ~isa::FTM_FLAG_DOWN));
}

} // namespace ftm
