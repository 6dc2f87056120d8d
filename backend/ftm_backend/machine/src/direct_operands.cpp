#include "direct_operands.h"

#include <algorithm>

#include "kernels/table.h"

namespace ftm {
namespace {

Side side_of(const CopyDim* first, int count) {
  Side side;
  std::copy_n(first, count, side.dims);
  side.count = simplify(side.dims, count);
  return side;
}

// Returns the loops of a lent slot, also if its load noted the distance of rows only.
LentLoops loops_of(const Core& core, const Slot& slot, const TileDecl& tile) {
  if (slot.loops >= 0) return core.lent_loops[size_t(slot.loops)];
  return {
      {{slot.rows, tile.columns, slot.row_bytes / type_bytes(tile.type)}, {slot.columns, 1, 1}},
      1,
      2,
      0};
}

// A product reads an operand in its buffer only if it passes over the operand a few times. For
// more, a copy costs less than it saves: it is in the nearest cache, and its rows do not compete
// for sets.
constexpr int64_t kMostPasses = 6;
constexpr int64_t kRowsOfPass = 14, kColumnsOfPass = 32; // of C
// The nearest cache keeps a strip of B with this many rows anyway, from one pass to the next.
constexpr int64_t kStripRows = 128;

// Rows at a multiple of this distance in bytes have the same set of the nearest cache.
constexpr int64_t kCacheWay = 4096;

bool shares_sets(const Side& rows) {
  return rows.is_regular() && rows.step() * 4 % kCacheWay == 0 && rows.run() > 1;
}

const int64_t* offsets_of(const Side& side, bool by_run, int64_t count, uint8_t*& free) {
  int64_t* found = reinterpret_cast<int64_t*>(take(free, count * 8));
  side.offsets(found, by_run);
  return found;
}

const float* floats(const Operand& x) {
  return reinterpret_cast<const float*>(x.data);
}

} // namespace

int64_t Side::offsets(int64_t* offsets, bool by_run) const {
  offsets[0] = 0;
  int64_t found = 1;
  for (int d = 0; d < count - int(by_run); ++d) {
    // Backwards, in place: element i becomes `extent` elements.
    const CopyDim& dim = dims[d];
    for (int64_t i = found - 1; i >= 0; --i)
      for (int64_t j = dim.extent - 1; j >= 0; --j)
        offsets[i * dim.extent + j] = offsets[i] + j * dim.from;
    found *= dim.extent;
  }
  return found;
}

DirectOperand direct_operand(const Core& core, const Slot& slot, const TileDecl& tile) {
  const LentLoops loops = loops_of(core, slot, tile);
  return {
      reinterpret_cast<const float*>(slot.lent), side_of(loops.dims, loops.row_dims),
      side_of(loops.dims + loops.row_dims, loops.count - loops.row_dims), loops.behind};
}

bool DirectOperand::touches(int64_t element_bytes, const uint8_t* from, int64_t bytes) const {
  int64_t least = 0, most = 1;
  for (const Side* side : {&rows, &columns})
    for (int d = 0; d < side->count; ++d) {
      const int64_t reach = (side->dims[d].extent - 1) * side->dims[d].from;
      (reach < 0 ? least : most) += reach;
    }
  const uint8_t* first = reinterpret_cast<const uint8_t*>(data);
  return first + least * element_bytes < from + bytes && from < first + most * element_bytes;
}

void copy_lent(Core& core, Slot& slot, const TileDecl& tile) {
  LentLoops loops = loops_of(core, slot, tile);
  const int count = simplify(loops.dims, loops.count);
  if (count >= 0)
    copy_elements(slot.base, slot.lent, loops.dims, count, type_bytes(tile.type), false);
  slot.lent = nullptr;
}

bool is_direct_a(const DirectOperand& a, const Product& p) {
  constexpr int64_t kShortest = 16;
  return p.n <= kMostPasses * kColumnsOfPass && a.columns.step() == 1 &&
         a.columns.run() >= std::min(kShortest, p.k) && !shares_sets(a.rows) &&
         (a.rows.is_regular() || a.rows.run() % kIndirectRows == 0);
}

bool is_direct_b(const DirectOperand& b, const Product& p, bool trans_a) {
  constexpr int64_t kVector = 16, kShortest = 24; // with one and a half vectors a quarter is lost
  const int64_t run = b.columns.run();
  const bool is_inside = run % kVector == 0 || b.behind >= kVector - 1;
  const bool is_near = p.m <= kMostPasses * kRowsOfPass || p.k <= kStripRows;
  return is_near && b.columns.step() == 1 && is_inside && run >= kShortest &&
         !shares_sets(b.rows) && (!trans_a || b.rows.is_regular());
}

void multiply_direct_a(const DirectOperand& a, const Operand& b, const Product& p, uint8_t* free) {
  const KernelTable& table = kernels();
  float* c = reinterpret_cast<float*>(p.c);
  const int64_t run = a.columns.run();
  const int64_t *at = offsets_of(a.rows, false, p.m, free),
                *runs = offsets_of(a.columns, true, p.k / run, free);
  for (int64_t i = 0; i * run < p.k; ++i) {
    const float *first = a.data + runs[i], *rows = floats(b) + i * run * b.stride;
    const bool acc = p.acc || i > 0;
    if (a.rows.is_regular())
      table.matrix_f32(p.m, p.n, run, first, a.rows.step(), 1, rows, b.stride, c, p.ldc, acc);
    else
      table.matrix_indirect_a(
          p.m, p.n, run, first, a.rows.step(), rows, b.stride, at, c, p.ldc, acc);
  }
}

void multiply_direct_b(
    const Operand& a, bool trans_a, const DirectOperand& b, const Product& p, uint8_t* free) {
  const KernelTable& table = kernels();
  float* c = reinterpret_cast<float*>(p.c);
  const int64_t run = b.columns.run();
  const int64_t *at = offsets_of(b.rows, false, p.k, free),
                *runs = offsets_of(b.columns, true, p.n / run, free);
  for (int64_t i = 0; i * run < p.n; ++i) {
    const float* first = b.data + runs[i];
    float* columns = c + i * run;
    if (b.rows.is_regular())
      table.matrix_f32(
          p.m, run, p.k, floats(a), trans_a ? 1 : a.stride, trans_a ? a.stride : 1, first,
          b.rows.step(), columns, p.ldc, p.acc);
    else
      table.matrix_indirect_b(
          p.m, run, p.k, floats(a), a.stride, first, 0, at, columns, p.ldc, p.acc);
  }
}

} // namespace ftm
