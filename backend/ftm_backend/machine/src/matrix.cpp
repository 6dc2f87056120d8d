// Matrix instructions: operands are converted to the layout of the inner loops (B by rows of K;
// float32, float64, int32, int64 or pairs of bfloat16), then multiplied. Products with few rows,
// and those of bfloat16 with an even K, read rows of B as they are. Those with few passes read an
// operand in its buffer (direct_operands.h). Tile registers read a packed B, which is kept for the
// next product.
#include <algorithm>
#include <cstring>

#include "checker.h"
#include "strided_copy.h"
#include "core_state.h"
#include "isa_gen.h"
#include "direct_operands.h"
#include "matrix_operands.h"

namespace ftm {
namespace {

int log2_of(int64_t bytes) {
  return bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
}

void widen(Operand& x, uint8_t*& free) {
  if (!is_half(x.type) && x.type != Type::I8) return;
  const KernelTable& table = kernels();
  const bool half = is_half(x.type);
  const StripFn fn = half ? table.load_half[int(x.type) - int(Type::F16)]
                          : table.convert[int(Type::I8)][int(Type::I32)];
  uint8_t* wide = take(free, x.rows * x.columns * 4);
  const int64_t bytes = type_bytes(x.type);
  for (int64_t i = 0; i < x.rows; ++i)
    fn(wide + i * x.columns * 4, x.data + i * x.stride * bytes, nullptr, nullptr, x.columns);
  x = {wide, x.rows, x.columns, x.columns, half ? Type::F32 : Type::I32};
}

void transpose(Operand& x, uint8_t*& free) {
  const int64_t bytes = type_bytes(x.type);
  // Not a power of two apart, so that rows do not compete for the same cache sets.
  const int64_t stride = (x.rows * bytes + 63) / 64 * 64 / bytes + 64 / bytes;
  uint8_t* turned = take(free, stride * x.columns * bytes);
  kernels().transpose[log2_of(bytes)](turned, stride, x.data, x.stride, x.rows, x.columns);
  x = {turned, x.columns, x.rows, stride, x.type};
}

// Widens a few rows to float32, and transposes them if they are columns.
void widen_few_rows(Operand& a, bool is_transposed, uint8_t*& free) {
  widen(a, free);
  if (is_transposed) transpose(a, free);
}

// Copies bfloat16 rows to an even distance, and an odd number of columns with a column of zeros, so
// that the rows consist of pairs.
void pair_columns(Operand& x, uint8_t*& free) {
  if (x.columns % 2 == 0 && x.stride % 2 == 0) return;
  const int64_t stride = (x.columns + 1) / 2 * 2, bytes = x.columns * 2;
  uint8_t* even = take(free, x.rows * stride * 2);
  for (int64_t i = 0; i < x.rows; ++i) {
    uint8_t* row = even + i * stride * 2;
    std::memcpy(row, x.data + i * x.stride * 2, size_t(bytes));
    std::memset(row + bytes, 0, size_t(stride * 2 - bytes));
  }
  x = {even, x.rows, x.columns, stride, x.type};
}

// Makes pairs of bfloat16 numbers along k, each an element of four bytes. along_columns: k is the
// number of columns, else of rows.
void make_pairs(Operand& x, bool along_columns, uint8_t*& free) {
  if (along_columns) {
    pair_columns(x, free);
    x = {x.data, x.rows, (x.columns + 1) / 2, x.stride / 2, Type::F32};
    return;
  }
  const int64_t pairs = (x.rows + 1) / 2;
  uint8_t* paired = take(free, pairs * x.columns * 4);
  kernels().pair_rows(
      reinterpret_cast<BrainPair*>(paired), x.columns, reinterpret_cast<const uint16_t*>(x.data),
      x.stride, x.rows, x.columns);
  x = {paired, pairs, x.columns, x.columns, Type::F32};
}

template <class T, class C, class B>
void multiply(
    MatrixFn<T, C, B> fn, const Product& p, int64_t k, const Operand& a, bool turned,
    const Operand& b) {
  fn(p.m, p.n, k, reinterpret_cast<const T*>(a.data), turned ? 1 : a.stride, turned ? a.stride : 1,
     reinterpret_cast<const B*>(b.data), b.stride, reinterpret_cast<C*>(p.c), p.ldc, p.acc);
}

// Whether a product reads B once, without copying it. Short dot products are faster as columns.
bool has_few_rows(const Product& p, Type c, bool trans_b) {
  constexpr int64_t kShort = 16;
  return c == Type::F32 && p.m <= kFewRows && (!trans_b || p.k >= kShort);
}

bool uses_tiles(const KernelTable& table, Type b) {
  return table.tiles.multiply && b == Type::BF16;
}

// Returns B, packed for tile registers: what the last product packed if the slot is the same.
const uint8_t* pack_tiles(
    Core& core, const TileRef& ref, const Product& p, const Operand& b, bool transposed) {
  PackedOperand& packed = core.packed;
  const Slot& slot = core.slot(ref.tile, p.b_number);
  if (packed.slot == &slot && packed.writes == slot.writes && packed.transposed == transposed)
    return packed.memory.data();
  const TileProducts& tiles = kernels().tiles;
  uint8_t* const to = packed.memory.ensure(tiles.packed_bytes(p.n, p.k));
  tiles.pack(to, reinterpret_cast<const uint16_t*>(b.data), b.stride, p.k, p.n, transposed);
  const bool is_shared = core.tile(ref.tile).space == 3; // other cores may write the slot
  packed.slot = is_shared ? nullptr : &slot;
  packed.writes = slot.writes;
  packed.transposed = transposed;
  return to;
}

// Whether a product reads this slot in a buffer, where the `bytes` of C would be written.
bool reads(
    const Core& core, const TileRef& ref, const Slot& slot, const uint8_t* c, int64_t bytes) {
  const TileDecl& tile = core.tile(ref.tile);
  return slot.lent && direct_operand(core, slot, tile).touches(type_bytes(tile.type), c, bytes);
}

// Lets a product write C to the buffer of the DST that follows, if there is one and if the product
// does not read there. Returns whether it does.
bool write_to_buffer(Core& core, const Matrix& operands, Product& p) {
  const TileDecl& tc = core.tile(operands.c.tile);
  if (core.checker || tc.stored_by < 0) return false;
  const Dma& store = core.program->store_of(tc);
  const int64_t element = type_bytes(tc.type);
  uint8_t* to;
  int64_t row_bytes;
  if (!find_destination(core, store, p.m, p.n, to, row_bytes) || row_bytes < p.n * element)
    return false;
  const int64_t bytes = (p.m - 1) * row_bytes + p.n * element;
  if (reads(core, operands.a, core.slot(operands.a.tile, p.a_number), to, bytes) ||
      reads(core, operands.b, core.slot(operands.b.tile, p.b_number), to, bytes))
    return false;
  note_write(core, store.buffer);
  p.c = to;
  p.ldc = row_bytes / element;
  return true;
}

// Checks the operands of a product, and finds where it writes C.
void begin(Core& core, const Matrix& operands, Product& p) {
  const TileDecl& tc = core.tile(operands.c.tile);
  Slot& sc = core.slot(operands.c.tile, p.c_number);
  if (p.m > tc.rows || p.n > tc.columns)
    throw Fault(
        "the product " + extents(p.m, p.n) + " exceeds tile " + tc.name + ", which is " +
        extents(tc.rows, tc.columns));
  if (p.acc && (sc.rows != p.m || sc.columns != p.n))
    throw Fault(
        "accumulates " + extents(p.m, p.n) + " onto " + tc.name + ", which holds " +
        extents(sc.rows, sc.columns));
  core.refuse_overlap("C", operands.c.tile, p.c_number, operands.a.tile, p.a_number);
  core.refuse_overlap("C", operands.c.tile, p.c_number, operands.b.tile, p.b_number);
  p.c = sc.base;
  p.ldc = tc.columns;
  sc.stored = write_to_buffer(core, operands, p);
}

// Sets the extents of C, and counts the operations.
void note_product(Core& core, Slot& c, const Product& p) {
  c.set_extents(p.m, p.n);
  core.counters.mm_flops += uint64_t(2 * p.m * p.n * p.k);
}

// Multiplies a by b, transposed if b is. free: work memory.
void finish(
    Core& core, const Matrix& operands, const Product& p, Operand a, bool trans_a, Operand b,
    bool trans_b, uint8_t* free) {
  const TileDecl& tc = core.tile(operands.c.tile);
  Slot& sc = core.slot(operands.c.tile, p.c_number);
  note_product(core, sc, p);
  if (p.m == 0 || p.n == 0) return;
  const KernelTable& table = kernels();
  if (has_few_rows(p, tc.type, trans_b)) {
    const FewRowsFn fn = table.few_rows[few_rows_index(b.type)];
    widen_few_rows(a, trans_a, free);
    return fn(
        p.m, p.n, p.k, reinterpret_cast<const float*>(a.data), a.stride, b.data, b.stride, trans_b,
        reinterpret_cast<float*>(p.c), p.ldc, p.acc);
  }
  if (uses_tiles(table, b.type)) {
    if (trans_a) transpose(a, free);
    return table.tiles.multiply(
        p.m, p.n, p.k, reinterpret_cast<const uint16_t*>(a.data), a.stride,
        pack_tiles(core, operands.b, p, b, trans_b), reinterpret_cast<float*>(p.c), p.ldc, p.acc);
  }
  if (table.matrix_pairs && b.type == Type::BF16) {
    const int64_t pairs = (p.k + 1) / 2;
    make_pairs(a, !trans_a, free);
    if (!trans_b && p.k % 2 == 0) return multiply(table.matrix_rows, p, pairs, a, trans_a, b);
    make_pairs(b, trans_b, free);
    if (trans_b) transpose(b, free);
    return multiply(table.matrix_pairs, p, pairs, a, trans_a, b);
  }
  widen(a, free);
  widen(b, free);
  if (trans_b) transpose(b, free);
  switch (tc.type) {
    case Type::F32: return multiply(table.matrix_f32, p, p.k, a, trans_a, b);
    case Type::F64: return multiply(table.matrix_f64, p, p.k, a, trans_a, b);
    case Type::I32: return multiply(table.matrix_i32, p, p.k, a, trans_a, b);
    default: return multiply(table.matrix_i64, p, p.k, a, trans_a, b);
  }
}

// Bytes for a copied or widened A, and for B widened and transposed, the latter with padded rows.
int64_t room(int64_t a_elements, const Slot& b) {
  return 8 * (2 * a_elements + 2 * int64_t(b.rows) * b.columns + int64_t{32} * b.columns) + 4096;
}

// Multiplies if A or B is lent and a kernel can read it in its buffer. Otherwise it copies the lent
// operands, or sets `b` to a B that is read once, and returns false.
bool multiply_lent(
    Core& core, const Matrix& operands, const Product& p, bool trans_a, bool trans_b, Operand& b,
    uint8_t* free) {
  const TileDecl &ta = core.tile(operands.a.tile), &tb = core.tile(operands.b.tile),
                 &tc = core.tile(operands.c.tile);
  Slot& sa = core.slot(operands.a.tile, p.a_number);
  Slot& sb = core.slot(operands.b.tile, p.b_number);
  Slot& sc = core.slot(operands.c.tile, p.c_number);
  const bool few_rows = has_few_rows(p, tc.type, trans_b);
  const bool direct = ta.type == Type::F32 && tb.type == Type::F32 && !few_rows;
  if (sb.lent) {
    const DirectOperand lent = direct_operand(core, sb, tb);
    if (direct && !trans_b && is_direct_b(lent, p, trans_a)) {
      if (sa.lent) copy_lent(core, sa, ta);
      multiply_direct_b(
          {sa.base, sa.rows, sa.columns, ta.columns, ta.type}, trans_a, lent, p, free);
      note_product(core, sc, p);
      return true;
    }
    if ((few_rows || uses_tiles(kernels(), tb.type)) && lent.is_plain())
      b = {sb.lent, sb.rows, sb.columns, lent.rows.count ? lent.rows.step() : p.k, tb.type};
    else copy_lent(core, sb, tb);
  }
  if (!sa.lent) return false;
  const DirectOperand lent = direct_operand(core, sa, ta);
  if (!direct || trans_a || !is_direct_a(lent, p)) {
    copy_lent(core, sa, ta);
    return false;
  }
  if (trans_b) transpose(b, free);
  multiply_direct_a(lent, b, p, free);
  note_product(core, sc, p);
  return true;
}

} // namespace

void run_matrix(Core& core, const Matrix& operands, uint16_t flags) {
  const bool trans_a = flags & isa::FTM_FLAG_TA, trans_b = flags & isa::FTM_FLAG_TB;
  Product p{
      core.number(operands.a),        core.number(operands.b), core.number(operands.c), 0, 0, 0,
      bool(flags & isa::FTM_FLAG_ACC)};
  Slot& sa = core.slot(operands.a.tile, p.a_number);
  Slot& sb = core.slot(operands.b.tile, p.b_number);
  const TileDecl& ta = core.tile(operands.a.tile);
  const TileDecl& tb = core.tile(operands.b.tile);
  p.m = trans_a ? sa.columns : sa.rows;
  p.k = trans_a ? sa.rows : sa.columns;
  p.n = trans_b ? sb.rows : sb.columns;
  if (p.k != (trans_b ? sb.columns : sb.rows))
    throw Fault(
        "A " + extents(sa.rows, sa.columns) + " and B " + extents(sb.rows, sb.columns) +
        " do not multiply");
  begin(core, operands, p);
  if (core.checker)
    core.checker->matrix(operands, p.a_number, p.b_number, p.c_number, p.m, p.n, p.acc);
  uint8_t* free = core.work.ensure(room(int64_t(sa.rows) * sa.columns, sb));
  Operand b{sb.base, sb.rows, sb.columns, tb.columns, tb.type};
  if ((sa.lent || sb.lent) && p.m > 0 && p.n > 0 && p.k > 0 &&
      multiply_lent(core, operands, p, trans_a, trans_b, b, free))
    return;
  finish(
      core, operands, p, {sa.base, sa.rows, sa.columns, ta.columns, ta.type}, trans_a, b, trans_b,
      free);
}

void run_windows(Core& core, const Windows& operands, uint16_t flags) {
  const Matrix& tiles = operands.tiles;
  Product p{core.number(tiles.a),           core.number(tiles.b), core.number(tiles.c), 1, 0, 1,
            bool(flags & isa::FTM_FLAG_ACC)};
  const Slot sa = core.slot(tiles.a.tile, p.a_number), sb = core.slot(tiles.b.tile, p.b_number);
  const TileDecl& ta = core.tile(tiles.a.tile);
  const TileDecl& tb = core.tile(tiles.b.tile);
  const TileDecl& tc = core.tile(tiles.c.tile);
  CopyDim dims[kMostDims];
  const int count = int(operands.dims.size());
  __int128 last = 0,
           start = 0; // elements of the slot: the last one, and the one at index 0
  for (int d = count - 1; d >= 0; --d) {
    const bool row = d < operands.row_dims;
    int64_t& side = row ? p.m : p.k;
    const int64_t extent = core.value(operands.dims[d].extent),
                  stride = core.value(operands.dims[d].stride);
    if (extent < 0) throw Fault("extent " + std::to_string(extent) + " is negative");
    dims[d] = {extent, side, stride}; // distances of destination rows are set once K is known
    if (extent > 1)
      (stride < 0 ? start : last) +=
          __int128(stride < 0 ? -__int128(stride) : stride) * (extent - 1);
    const int64_t most = row ? int64_t(tc.rows) : int64_t(sb.rows);
    if (extent > most || side * extent > most)
      throw Fault(
          row ? "the windows exceed tile " + tc.name + ", which has " + std::to_string(most) +
                    " rows"
              : "the windows have more columns than B has rows, " + std::to_string(most));
    side *= extent;
  }
  for (int d = 0; d < operands.row_dims; ++d) dims[d].to *= p.k;
  p.n = sb.columns;
  if (p.k != sb.rows)
    throw Fault(
        "A " + extents(p.m, p.k) + " and B " + extents(sb.rows, sb.columns) + " do not multiply");
  last += start;
  if (p.m > 0 && p.k > 0 && last >= __int128(ta.rows) * ta.columns)
    throw Fault(
        "the windows reach element " + std::to_string(int64_t(last)) + " of " + ta.name +
        ", which has " + std::to_string(int64_t(ta.rows) * ta.columns));
  begin(core, tiles, p);
  if (core.checker)
    core.checker->windows(
        tiles, p.a_number, p.b_number, p.c_number, dims, count, int64_t(start), p.m, p.n, p.acc);
  uint8_t* free = core.work.ensure(room(p.m * p.k, sb));
  const int64_t bytes = type_bytes(ta.type);
  uint8_t* copied = take(free, p.m * p.k * bytes);
  const int left = simplify(dims, count);
  if (left >= 0) copy_elements(copied, sa.base + int64_t(start) * bytes, dims, left, bytes, false);
  finish(
      core, tiles, p, {copied, p.m, p.k, p.k, ta.type}, false,
      {sb.base, sb.rows, sb.columns, tb.columns, tb.type}, false, free);
}

void run_transpose(Core& core, const Matrix& operands) {
  const auto [s, d, from_number, to_number, from, to] = core.pair(operands);
  const int64_t rows = from.columns, columns = from.rows;
  if (rows > d.rows || columns > d.columns)
    throw Fault(
        "the transpose of " + extents(from.rows, from.columns) + " exceeds tile " + d.name +
        ", which is " + extents(d.rows, d.columns));
  core.refuse_overlap("Y", operands.b.tile, to_number, operands.a.tile, from_number);
  if (core.checker) core.checker->rearrange(operands, from_number, to_number, rows, columns);
  to.set_extents(rows, columns);
  kernels().transpose[log2_of(type_bytes(s.type))](
      to.base, d.columns, from.base, s.columns, from.rows, from.columns);
}

} // namespace ftm
