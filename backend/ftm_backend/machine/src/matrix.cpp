// Matrix instructions: operands are brought into the form that the inner loops take (B by rows of K, element
// types float32, float64, int32 and int64), then multiplied.
#include "checker.h"
#include "core.h"
#include "isa_gen.h"

namespace ftm {
namespace {

int log2_of(int64_t bytes) {
  return bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
}

// A tile's rows x columns elements in the product's own type; `stride` becomes the distance of its rows.
struct Operand {
  const uint8_t* data;
  int64_t rows, columns, stride;
  Type type;
};

// Takes `bytes` more of the core's work memory, which holds all of one product's copies.
uint8_t* take(uint8_t*& free, int64_t bytes) {
  uint8_t* start = free;
  free += (bytes + kSlack + 63) / 64 * 64;
  return start;
}

void widen(Operand& x, uint8_t*& free) {
  if (!is_half(x.type) && x.type != Type::I8) return;
  const KernelTable& table = kernels();
  const bool half = is_half(x.type);
  const StripFn fn =
      half ? table.load_half[int(x.type) - int(Type::F16)] : table.convert[int(Type::I8)][int(Type::I32)];
  uint8_t* wide = take(free, x.rows * x.columns * 4);
  const int64_t bytes = type_bytes(x.type);
  for (int64_t i = 0; i < x.rows; ++i)
    fn(wide + i * x.columns * 4, x.data + i * x.stride * bytes, nullptr, nullptr, x.columns);
  x = {wide, x.rows, x.columns, x.columns, half ? Type::F32 : Type::I32};
}

void transpose(Operand& x, uint8_t*& free) {
  const int64_t bytes = type_bytes(x.type);
  // Not a power of two apart, so that rows do not contend for the same lines of the cache.
  const int64_t stride = (x.rows * bytes + 63) / 64 * 64 / bytes + 64 / bytes;
  uint8_t* turned = take(free, stride * x.columns * bytes);
  kernels().transpose[log2_of(bytes)](turned, stride, x.data, x.stride, x.rows, x.columns);
  x = {turned, x.columns, x.rows, stride, x.type};
}

template <class T>
void multiply(
    MatrixFn<T> fn, int64_t m, int64_t n, int64_t k, const Operand& a, bool turned, const Operand& b, uint8_t* c,
    int64_t ldc, bool acc) {
  fn(m, n, k, reinterpret_cast<const T*>(a.data), turned ? 1 : a.stride, turned ? a.stride : 1,
     reinterpret_cast<const T*>(b.data), b.stride, reinterpret_cast<T*>(c), ldc, acc);
}

} // namespace

void run_matrix(Core& core, const Matrix& operands, uint16_t flags) {
  const int32_t a_number = core.number(operands.a), b_number = core.number(operands.b),
                c_number = core.number(operands.c);
  const Slot sa = core.slot(operands.a.tile, a_number), sb = core.slot(operands.b.tile, b_number);
  Slot& sc = core.slot(operands.c.tile, c_number);
  const TileDecl& ta = core.tile(operands.a.tile);
  const TileDecl& tb = core.tile(operands.b.tile);
  const TileDecl& tc = core.tile(operands.c.tile);
  const bool trans_a = flags & isa::FTM_FLAG_TA, trans_b = flags & isa::FTM_FLAG_TB, acc = flags & isa::FTM_FLAG_ACC;
  const int64_t m = trans_a ? sa.columns : sa.rows, k = trans_a ? sa.rows : sa.columns;
  const int64_t n = trans_b ? sb.rows : sb.columns;
  if (k != (trans_b ? sb.columns : sb.rows))
    throw Fault("A " + extents(sa.rows, sa.columns) + " and B " + extents(sb.rows, sb.columns) + " do not multiply");
  if (m > tc.rows || n > tc.columns)
    throw Fault(
        "the product " + extents(m, n) + " exceeds tile " + tc.name + ", which is " + extents(tc.rows, tc.columns));
  if (acc && (sc.rows != m || sc.columns != n))
    throw Fault("accumulates " + extents(m, n) + " onto " + tc.name + ", which holds " + extents(sc.rows, sc.columns));
  core.apart("C", operands.c.tile, c_number, operands.a.tile, a_number);
  core.apart("C", operands.c.tile, c_number, operands.b.tile, b_number);
  if (core.checker) core.checker->matrix(operands, a_number, b_number, c_number, m, n, acc);
  sc.rows = int32_t(m);
  sc.columns = int32_t(n);
  core.counters.mm_flops += uint64_t(2 * m * n * k);

  Operand a{sa.base, sa.rows, sa.columns, ta.columns, ta.type}, b{sb.base, sb.rows, sb.columns, tb.columns, tb.type};
  // Room for a widened A, and for B widened and transposed, the latter with padded rows.
  const int64_t room = 8 * (a.rows * a.columns + 2 * b.rows * b.columns + 32 * b.columns) + 4096;
  uint8_t* free = core.work.ensure(room);
  widen(a, free);
  widen(b, free);
  if (trans_b) transpose(b, free);
  const KernelTable& table = kernels();
  switch (tc.type) {
    case Type::F32: return multiply(table.matrix_f32, m, n, k, a, trans_a, b, sc.base, tc.columns, acc);
    case Type::F64: return multiply(table.matrix_f64, m, n, k, a, trans_a, b, sc.base, tc.columns, acc);
    case Type::I32: return multiply(table.matrix_i32, m, n, k, a, trans_a, b, sc.base, tc.columns, acc);
    default: return multiply(table.matrix_i64, m, n, k, a, trans_a, b, sc.base, tc.columns, acc);
  }
}

void run_transpose(Core& core, const Matrix& operands) {
  const TileDecl& s = core.tile(operands.a.tile);
  const TileDecl& d = core.tile(operands.b.tile);
  const int32_t from_number = core.number(operands.a), to_number = core.number(operands.b);
  const Slot from = core.slot(operands.a.tile, from_number);
  Slot& to = core.slot(operands.b.tile, to_number);
  if (from.columns > d.rows || from.rows > d.columns)
    throw Fault(
        "the transpose of " + extents(from.rows, from.columns) + " exceeds tile " + d.name + ", which is " +
        extents(d.rows, d.columns));
  core.apart("Y", operands.b.tile, to_number, operands.a.tile, from_number);
  if (core.checker) core.checker->transpose(operands, from_number, to_number);
  to.rows = from.columns;
  to.columns = from.rows;
  kernels().transpose[log2_of(type_bytes(s.type))](to.base, d.columns, from.base, s.columns, from.rows, from.columns);
}

} // namespace ftm
