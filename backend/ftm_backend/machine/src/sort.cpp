// SORT and MERGE: rows of int64 in ascending order.
//
// The modelled unit is a bitonic network. Here short rows are sorted by insertion, long ones by
// radix sort from the least significant byte. Low bytes by which a row is sorted already are
// skipped: the lower halves of keys usually hold positions, which ascend.
#include <algorithm>
#include <cstring>

#include "checker.h"
#include "core_state.h"

namespace ftm {
namespace {

constexpr int64_t kShort = 40; // rows of at most this length are sorted by insertion; measured
constexpr int kBytes = 8;

void copy_row(int64_t* to, const int64_t* from, int64_t n) {
  std::memcpy(to, from, size_t(n) * 8);
}

// Maps signed numbers to unsigned ones in the same order.
uint64_t ordered(int64_t x) {
  return uint64_t(x) ^ (uint64_t(1) << 63);
}

void insert(const int64_t* from, int64_t* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t x = from[i];
    int64_t j = i;
    for (; j > 0 && x < to[j - 1]; --j) to[j] = to[j - 1];
    to[j] = x;
  }
}

// Returns how many of the least significant bytes, taken together, are in order already.
int settled(const int64_t* row, int64_t n) {
  int bytes = kBytes;
  for (; bytes > 0; --bytes) {
    const int above = 8 * (kBytes - bytes);
    int64_t i = 1;
    while (i < n && ordered(row[i - 1]) << above <= ordered(row[i]) << above) ++i;
    if (i == n) break;
  }
  return bytes;
}

// spare: room for a row.
void sort_row(const int64_t* from, int64_t* to, int64_t* spare, int64_t n) {
  if (n <= kShort) return insert(from, to, n);
  const int first = settled(from, n);
  uint32_t counts[kBytes][256];
  std::memset(counts[first], 0, sizeof counts[0] * size_t(kBytes - first));
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t x = ordered(from[i]);
    for (int k = first; k < kBytes; ++k) ++counts[k][uint8_t(x >> 8 * k)];
  }
  int passes[kBytes], count = 0;
  for (int k = first; k < kBytes; ++k) // skip bytes that are the same in all numbers
    if (counts[k][uint8_t(ordered(from[0]) >> 8 * k)] != uint32_t(n)) passes[count++] = k;
  // Passes alternate between two buffers and end in `to`; the first must not read where it writes.
  const int64_t* source = from;
  int64_t* target = count % 2 ? to : spare;
  if (target == from) {
    std::memcpy(spare, from, size_t(n) * 8);
    source = spare;
  }
  if (count == 0 && to != from) std::memcpy(to, from, size_t(n) * 8);
  for (int p = 0; p < count; ++p) {
    const int k = passes[p];
    int64_t* places[256];
    int64_t* next = target;
    for (int d = 0; d < 256; ++d) {
      places[d] = next;
      next += counts[k][d];
    }
    for (int64_t i = 0; i < n; ++i) *places[uint8_t(ordered(source[i]) >> 8 * k)]++ = source[i];
    source = target;
    target = target == to ? spare : to;
  }
}

// Sorts the `kept` least elements of a row. Elements not below the greatest of `kept` seen elements
// are skipped. spare: room for 2 * kept elements and for a row.
void least_of_row(const int64_t* from, int64_t* to, int64_t* spare, int64_t n, int64_t kept) {
  const int64_t room = 2 * kept;
  int64_t limit = INT64_MAX, held = 0;
  for (int64_t i = 0; i < n; ++i) {
    spare[held] = from[i];
    held += from[i] < limit;
    if (held == room) {
      std::nth_element(spare, spare + kept - 1, spare + held);
      limit = spare[kept - 1];
      held = kept;
    }
  }
  if (held > kept) std::nth_element(spare, spare + kept - 1, spare + held);
  // Elements equal to the first limit were skipped as well.
  for (; held < kept; ++held) spare[held] = INT64_MAX;
  sort_row(spare, to, spare + room, kept);
}

// Merges from both ends at once: two independent chains of comparisons.
void merge_row(const int64_t* a, int64_t na, const int64_t* b, int64_t nb, int64_t* to) {
  if (na == 0 || nb == 0) {
    std::memcpy(to, na ? a : b, size_t(na + nb) * 8);
    return;
  }
  const int64_t *a_low = a, *b_low = b, *a_high = a + na - 1, *b_high = b + nb - 1;
  int64_t *low = to, *high = to + na + nb - 1;
  // Each half takes fewer than min(na, nb) from one side, so neither side runs out.
  for (int64_t safe = std::min(na, nb) / 2; safe > 0;
       safe = std::min(a_high - a_low + 1, b_high - b_low + 1) / 2)
    for (int64_t k = 0; k < safe; ++k) {
      const bool from_b = *b_low < *a_low;
      *low++ = from_b ? *b_low : *a_low;
      b_low += from_b;
      a_low += !from_b;
      const bool from_a = *b_high < *a_high;
      *high-- = from_a ? *a_high : *b_high;
      a_high -= from_a;
      b_high -= !from_a;
    }
  std::merge(a_low, a_high + 1, b_low, b_high + 1, low);
}

} // namespace

void run_sort(Core& core, const Matrix& operands) {
  const auto [s, d, from_number, to_number, from, to] = core.pair(operands);
  if (from.rows > d.rows)
    throw Fault(
        extents(from.rows, from.columns) + " exceeds tile " + d.name + ", which is " +
        extents(d.rows, d.columns));
  const int32_t kept = std::min<int32_t>(from.columns, d.columns);
  if (operands.a.tile != operands.b.tile || from_number != to_number)
    core.refuse_overlap("Y", operands.b.tile, to_number, operands.a.tile, from_number);
  if (core.checker) core.checker->sort(operands, from_number, to_number, kept);
  to.set_extents(from.rows, kept);
  if (kept == 0) return;
  // Rows are counted, then moved by the counts, so copy what another core may change meanwhile.
  const bool shared = s.space == 3 || d.space == 3;
  const int64_t columns = from.columns, wide = shared ? columns + kept : 0;
  int64_t* const own =
      reinterpret_cast<int64_t*>(core.work.ensure((columns + 3 * int64_t(kept) + wide) * 8));
  int64_t* const spare = own + wide;
  for (int64_t i = 0; i < from.rows; ++i) {
    const int64_t* row = reinterpret_cast<const int64_t*>(from.base) + i * s.columns;
    int64_t* const result = reinterpret_cast<int64_t*>(to.base) + i * d.columns;
    int64_t* target = result;
    if (shared) {
      copy_row(own, row, columns);
      row = own;
      target = own + columns;
    }
    if (kept == columns) sort_row(row, target, spare, kept);
    else least_of_row(row, target, spare, columns, kept);
    if (shared) copy_row(result, target, kept);
  }
}

void run_merge(Core& core, const Matrix& operands) {
  const TileDecl& ta = core.tile(operands.a.tile);
  const TileDecl& tb = core.tile(operands.b.tile);
  const TileDecl& ty = core.tile(operands.c.tile);
  const int32_t a_number = core.number(operands.a), b_number = core.number(operands.b),
                y_number = core.number(operands.c);
  const Slot a = core.slot(operands.a.tile, a_number), b = core.slot(operands.b.tile, b_number);
  Slot& y = core.slot(operands.c.tile, y_number);
  if (a.rows != b.rows)
    throw Fault("merges " + std::to_string(a.rows) + " rows with " + std::to_string(b.rows));
  if (a.rows > ty.rows || a.columns + b.columns > ty.columns)
    throw Fault(
        extents(a.rows, a.columns + b.columns) + " exceeds tile " + ty.name + ", which is " +
        extents(ty.rows, ty.columns));
  core.refuse_overlap("Y", operands.c.tile, y_number, operands.a.tile, a_number);
  core.refuse_overlap("Y", operands.c.tile, y_number, operands.b.tile, b_number);
  if (core.checker) core.checker->merge(operands, a_number, b_number, y_number);
  y.set_extents(a.rows, a.columns + b.columns);
  for (int64_t i = 0; i < a.rows; ++i)
    merge_row(
        reinterpret_cast<const int64_t*>(a.base) + i * ta.columns, a.columns,
        reinterpret_cast<const int64_t*>(b.base) + i * tb.columns, b.columns,
        reinterpret_cast<int64_t*>(y.base) + i * ty.columns);
}

} // namespace ftm
