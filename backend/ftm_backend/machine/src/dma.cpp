// DMA instructions. A transfer is executed when it is issued, which a program with correct waits
// cannot observe. Every transfer is checked against its buffer and its tile, in fast mode too.
#include <algorithm>
#include <cstring>

#include "checker.h"
#include "strided_copy.h"
#include "core_state.h"
#include "isa_gen.h"

namespace ftm {
namespace {

using Wide = __int128;

// The loops of a transfer, and their spans on both sides.
struct Shape {
  CopyDim dims[kMostDims]; // `to` is in the tile, `from` in the buffer
  int count = 0;
  int64_t rows = 1, columns = 1;
  Wide least = 0, most = 0; // element offsets reached in the buffer, relative to the start
  bool overlapping = false; // whether two elements of the tile may be one of the buffer
};

int64_t extent_of(const Core& core, const Source& s, int64_t most) {
  const int64_t n = core.value(s);
  if (n < 0) throw Fault("extent " + std::to_string(n) + " is negative");
  if (n > most) throw Fault("extent " + std::to_string(n) + " exceeds the tile");
  return n;
}

// The loops over dims[first..end), one side of the bar. unit: distance of neighbors in the tile.
int64_t add_side(
    const Core& core, const Dma& dma, int first, int end, int64_t unit, int64_t most,
    Shape& shape) {
  int64_t product = 1;
  for (int k = end - 1; k >= first; --k) {
    CopyDim& d = shape.dims[k];
    d.extent = extent_of(core, dma.dims[k].extent, most);
    d.from = core.value(dma.dims[k].stride);
    d.to = product * unit;
    product *= d.extent;
    if (product > most) {
      const TileDecl& t = core.tile(dma.data.tile);
      throw Fault("the extents exceed tile " + t.name + ", which is " + extents(t.rows, t.columns));
    }
    if (d.extent > 1) {
      (d.from < 0 ? shape.least : shape.most) += Wide(d.from) * (d.extent - 1);
      shape.overlapping |= d.from == 0;
    }
  }
  return product;
}

Shape shape_of(const Core& core, const Dma& dma) {
  Shape shape;
  const TileDecl& t = core.tile(dma.data.tile);
  const int all = dma.row_dims + dma.column_dims;
  shape.columns = add_side(core, dma, dma.row_dims, all, 1, t.columns, shape);
  shape.rows = add_side(core, dma, 0, dma.row_dims, t.columns, t.rows, shape);
  shape.count = all;
  return shape;
}

[[noreturn]] void outside(const Core& core, const Dma& dma, Wide least, Wide most) {
  throw Fault(
      "reaches elements " + std::to_string(int64_t(least)) + " to " +
      std::to_string(int64_t(most)) + " of " + core.buffer_name(dma.buffer));
}

void check_inside(const Core& core, const Dma& dma, Wide offset, const Shape& shape) {
  const int64_t own = core.views[dma.buffer].elements;
  const Wide elements =
      dma.border < 0 ? Wide(own) : core.program->borders[size_t(dma.border)].elements(own);
  if (offset + shape.least < 0 || offset + shape.most >= elements)
    outside(core, dma, offset + shape.least, offset + shape.most);
}

// copy_elements from element `at` of a padded buffer. dims: `from` counts elements as if the
// padding were in memory.
void copy_bordered(
    uint8_t* to, const uint8_t* from, const CopyDim* dims, int count, int64_t bytes,
    const Border& border, int64_t at) {
  if (count > 1) {
    for (int64_t i = 0; i < dims[0].extent; ++i)
      copy_bordered(
          to + i * dims[0].to * bytes, from, dims + 1, count - 1, bytes, border,
          at + i * dims[0].from);
    return;
  }
  const CopyDim d = count == 1 ? dims[0] : CopyDim{1, 1, 1};
  const int last = border.sides - 1;
  const int64_t first = border.before[last], end = first + border.inside[last];
  for (int64_t i = 0; i < d.extent;) {
    const int64_t e = at + i * d.from, x = e % border.whole[last];
    int64_t n = 1; // neighbors that are all padding, or all in the buffer
    if (d.from == 1 && d.to == 1)
      n = std::min(d.extent - i, (x < first ? first : x < end ? end : border.whole[last]) - x);
    const int64_t found = border.place(e);
    uint8_t* out = to + i * d.to * bytes;
    if (found < 0) std::memset(out, 0, size_t(n * bytes));
    else std::memcpy(out, from + found * bytes, size_t(n * bytes));
    i += n;
  }
}

// to[i] = op(to[i], from[i]) for adjacent elements.
void combine(Op op, Type type, uint8_t* to, const uint8_t* from, int64_t n) {
  const KernelTable& table = kernels();
  if (!is_half(type)) return table.strip[int(op)][int(type)][0](to, to, from, nullptr, n);
  const int half = int(type) - int(Type::F16);
  alignas(64) float a[256 + 16], b[256 + 16];
  for (int64_t i = 0; i < n; i += 256) {
    const int64_t count = n - i < 256 ? n - i : 256;
    table.load_half[half](a, to + 2 * i, nullptr, nullptr, count);
    table.load_half[half](b, from + 2 * i, nullptr, nullptr, count);
    table.strip[int(op)][int(Type::F32)][0](a, a, b, nullptr, count);
    table.store_half[half](to + 2 * i, a, nullptr, nullptr, count);
  }
}

// copy_elements that combines, in the order of the loops. dims: `to` is in the buffer.
void combine_elements(
    Op op, Type type, uint8_t* to, const uint8_t* from, const CopyDim* dims, int count) {
  const int64_t bytes = type_bytes(type);
  if (count == 0) return combine(op, type, to, from, 1);
  const CopyDim& d = dims[0];
  if (count > 1) {
    for (int64_t i = 0; i < d.extent; ++i)
      combine_elements(
          op, type, to + i * d.to * bytes, from + i * d.from * bytes, dims + 1, count - 1);
  } else if (d.to == 1 && d.from == 1) {
    combine(op, type, to, from, d.extent);
  } else if (d.to == 0) {
    for (int64_t i = 0; i < d.extent; ++i) combine(op, type, to, from + i * d.from * bytes, 1);
  } else {
    alignas(64) uint8_t a[64 * 8 + kSlack], b[64 * 8 + kSlack];
    for (int64_t i = 0; i < d.extent; i += 64) {
      const int64_t n = d.extent - i < 64 ? d.extent - i : 64;
      uint8_t* at = to + i * d.to * bytes;
      const CopyDim out{n, 1, d.to}, in{n, 1, d.from}, back{n, d.to, 1};
      copy_elements(a, at, &out, 1, bytes, true);
      copy_elements(b, from + i * d.from * bytes, &in, 1, bytes, true);
      combine(op, type, a, b, n);
      copy_elements(at, a, &back, 1, bytes, true);
    }
  }
}

void reverse(CopyDim* dims, int count) {
  for (int k = 0; k < count; ++k) std::swap(dims[k].to, dims[k].from);
}

// Reads index i of a tile once: another core may write it, and the value that was checked must be
// the value that is used.
int64_t index_at(const Slot& slot, const TileDecl& tile, int64_t i) {
  const int64_t at = i / slot.columns * tile.columns + i % slot.columns;
  int64_t x;
  if (tile.type == Type::I64) {
    std::memcpy(&x, slot.base + 8 * at, 8);
  } else {
    int32_t narrow;
    std::memcpy(&narrow, slot.base + 4 * at, 4);
    x = narrow;
  }
  asm volatile("" : "+r"(x));
  return x;
}

// Whether a tile's rows are adjacent elements in the buffer. dims: simplified, `to` in the tile.
bool has_adjacent_columns(
    const Shape& shape, int count, const TileDecl& tile, int64_t& row_stride) {
  row_stride = shape.columns;
  if (count == 0) return true;
  const CopyDim *rows = &shape.dims[0], *columns = &shape.dims[count - 1];
  const bool adjacent = columns->to == 1 && columns->from == 1;
  if (count == 1 && adjacent && columns->extent == shape.rows * shape.columns) return true;
  row_stride = rows->from;
  if (count == 1) return shape.columns == 1;
  return count == 2 && adjacent && columns->extent == shape.columns && rows->to == tile.columns;
}

// Lets a gather write to the buffer of the DST that follows, if it need not be undone after a fault
// and cannot be what is read.
bool find_gather_destination(
    Core& core, const Dma& dma, const TileDecl& tile, int64_t rows, int64_t columns, uint8_t*& to,
    int64_t& row_bytes) {
  if (core.checker || tile.stored_by < 0) return false;
  const Dma& store = core.program->store_of(tile);
  const View &source = core.views[dma.buffer], &target = core.views[store.buffer];
  const int64_t bytes = type_bytes(tile.type);
  const bool apart = source.base + source.elements * bytes <= target.base ||
                     target.base + target.elements * bytes <= source.base;
  if (target.donated || !apart || !find_destination(core, store, rows, columns, to, row_bytes))
    return false;
  note_write(core, store.buffer);
  return true;
}

// Rows that a gather requests ahead, so that memory's latency does not add up.
constexpr int64_t kRowsAhead = 6;

void prefetch_row(const uint8_t* from, int64_t bytes) {
  for (int64_t at = 0; at < std::min<int64_t>(bytes, 1024); at += 64) __builtin_prefetch(from + at);
}

// Returns where row i of a row transfer starts in the buffer.
int64_t row_offset(const Core& core, const Dma& dma, int64_t i, int64_t index, const Shape& shape) {
  const Wide at = Wide(index) * core.value(dma.row_stride) + core.value(dma.offset);
  const int64_t elements = core.views[dma.buffer].elements;
  if (at + shape.least < 0 || at + shape.most >= elements)
    throw Fault(
        "index " + std::to_string(index) + " of row " + std::to_string(i) + " leads outside " +
        core.buffer_name(dma.buffer) + " (index out of range)");
  return int64_t(at);
}

} // namespace

void note_write(const Core& core, int32_t buffer) {
  if (!core.views[buffer].donated) return;
  Phase found = core.phase->load(std::memory_order_relaxed);
  while (found != Phase::overwritten) {
    if (found == Phase::stopping) throw Interrupted();
    core.phase->compare_exchange_weak(found, Phase::overwritten, std::memory_order_relaxed);
  }
}

bool find_destination(
    const Core& core, const Dma& dma, int64_t rows, int64_t columns, uint8_t*& to,
    int64_t& row_bytes) {
  Shape shape = shape_of(core, dma);
  const int64_t offset = core.value(dma.offset), bytes = type_bytes(core.tile(dma.data.tile).type);
  if (shape.rows != rows || shape.columns != columns || shape.overlapping || rows * columns == 0)
    return false;
  if (offset + shape.least < 0 || offset + shape.most >= core.views[dma.buffer].elements)
    return false;
  int64_t stride = 0;
  const int count = simplify(shape.dims, shape.count);
  if (!has_adjacent_columns(shape, count, core.tile(dma.data.tile), stride)) return false;
  to = core.views[dma.buffer].base + offset * bytes;
  row_bytes = stride * bytes;
  return true;
}

void run_load(Core& core, const Dma& dma) {
  Shape shape = shape_of(core, dma);
  const TileDecl& t = core.tile(dma.data.tile);
  const int32_t number = core.number(dma.data);
  Slot& slot = core.slot(dma.data.tile, number);
  const int64_t bytes = type_bytes(t.type);
  const int64_t offset = core.value(dma.offset);
  const bool empty = shape.rows == 0 || shape.columns == 0;
  if (!empty) check_inside(core, dma, offset, shape);
  if (core.checker)
    core.checker->load(dma, number, shape.rows, shape.columns, shape.dims, shape.count, offset);
  slot.set_extents(shape.rows, shape.columns);
  slot.lent = nullptr;
  if (empty) return;
  core.counters.dma_bytes += uint64_t(shape.rows * shape.columns * bytes);
  uint8_t* from = core.views[dma.buffer].base;
  const Lends lends = core.checker ? Lends::nothing : dma.lends;
  if (lends == Lends::loops) {
    slot.lent = from + offset * bytes;
    slot.loops = number;
    if (core.lent_loops.size() <= size_t(number)) core.lent_loops.resize(size_t(number) + 1);
    LentLoops& loops = core.lent_loops[size_t(number)];
    std::copy_n(shape.dims, shape.count, loops.dims);
    loops.row_dims = dma.row_dims;
    loops.count = shape.count;
    loops.behind = int64_t(core.views[dma.buffer].elements - 1 - (offset + shape.most));
    return;
  }
  const int count = simplify(shape.dims, shape.count);
  int64_t row_stride = 0;
  if (lends == Lends::rows && has_adjacent_columns(shape, count, t, row_stride)) {
    slot.lent = from + offset * bytes;
    slot.row_bytes = row_stride * bytes;
    return;
  }
  if (dma.border >= 0)
    copy_bordered(
        slot.base, from, shape.dims, count, bytes, core.program->borders[size_t(dma.border)],
        offset);
  else copy_elements(slot.base, from + offset * bytes, shape.dims, count, bytes, false);
}

void run_store(Core& core, const Dma& dma) {
  Shape shape = shape_of(core, dma);
  const TileDecl& t = core.tile(dma.data.tile);
  const int32_t number = core.number(dma.data);
  Slot& slot = core.slot(dma.data.tile, number);
  const int64_t bytes = type_bytes(t.type);
  const int64_t offset = core.value(dma.offset);
  const bool empty = shape.rows == 0 || shape.columns == 0;
  if (!empty) check_inside(core, dma, offset, shape);
  if (core.checker)
    core.checker->store(dma, number, shape.rows, shape.columns, shape.dims, shape.count, offset);
  if (empty) return;
  core.counters.dma_bytes += uint64_t(shape.rows * shape.columns * bytes);
  if (slot.stored) {
    slot.stored = false;
    return;
  }
  const int count = simplify(shape.dims, shape.count);
  reverse(shape.dims, count);
  note_write(core, dma.buffer);
  uint8_t* to = core.views[dma.buffer].base + offset * bytes;
  copy_elements(to, slot.base, shape.dims, count, bytes, shape.overlapping);
}

void run_gather(Core& core, const Dma& dma) {
  const TileDecl& t = core.tile(dma.data.tile);
  const TileDecl& index_tile = core.tile(dma.index.tile);
  const Slot index = core.slot(dma.index);
  const int32_t number = core.number(dma.data);
  Slot& slot = core.slot(dma.data.tile, number);
  Shape shape = shape_of(core, dma);
  const int64_t rows = int64_t(index.rows) * index.columns, bytes = type_bytes(t.type);
  if (rows > t.rows) throw Fault(std::to_string(rows) + " rows exceed tile " + t.name);
  if (core.checker) core.checker->gather(dma, core.number(dma.index), number, rows, shape.columns);
  slot.set_extents(rows, shape.columns);
  const int count = simplify(shape.dims, shape.count);
  if (count < 0) return;
  core.counters.dma_bytes += uint64_t(rows * shape.columns * bytes);
  uint8_t* to = slot.base;
  int64_t row_bytes = t.columns * bytes;
  slot.stored = find_gather_destination(core, dma, t, rows, shape.columns, to, row_bytes);
  const uint8_t* const base = core.views[dma.buffer].base;
  const uint64_t elements = uint64_t(core.views[dma.buffer].elements);
  const int64_t stride = core.value(dma.row_stride);
  for (int64_t i = 0; i < rows; ++i) {
    if (i + kRowsAhead < rows) {
      const int64_t next = index_at(index, index_tile, i + kRowsAhead);
      const uint64_t at = uint64_t(next) * uint64_t(stride) + uint64_t(core.value(dma.offset));
      if (at < elements) // else this row will fault
        prefetch_row(
            base + at * uint64_t(bytes),
            int64_t(std::min(uint64_t(shape.columns), elements - at)) * bytes);
    }
    const int64_t at = row_offset(core, dma, i, index_at(index, index_tile, i), shape);
    if (core.checker) core.checker->read_buffer(dma.buffer, shape.dims, count, at);
    copy_elements(to + i * row_bytes, base + at * bytes, shape.dims, count, bytes, false);
  }
}

void run_scatter(Core& core, const Dma& dma, uint16_t flags) {
  const TileDecl& t = core.tile(dma.data.tile);
  const TileDecl& index_tile = core.tile(dma.index.tile);
  const Slot index = core.slot(dma.index);
  const int32_t number = core.number(dma.data);
  const Slot& slot = core.slot(dma.data.tile, number);
  Shape shape = shape_of(core, dma);
  const int64_t rows = int64_t(index.rows) * index.columns, bytes = type_bytes(t.type);
  if (rows > t.rows) throw Fault(std::to_string(rows) + " rows exceed tile " + t.name);
  if (core.checker) core.checker->scatter(dma, core.number(dma.index), number, rows, shape.columns);
  const int count = simplify(shape.dims, shape.count);
  if (count < 0) return;
  core.counters.dma_bytes += uint64_t(rows * shape.columns * bytes);
  const Op op = flags & isa::FTM_FLAG_ADD   ? Op::Add
                : flags & isa::FTM_FLAG_MUL ? Op::Mul
                : flags & isa::FTM_FLAG_MIN ? Op::Min
                : flags & isa::FTM_FLAG_MAX ? Op::Max
                                            : Op::Mov;
  const Type type = core.program->buffers[dma.buffer].type;
  reverse(shape.dims, count);
  note_write(core, dma.buffer);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t at = row_offset(core, dma, i, index_at(index, index_tile, i), shape);
    if (core.checker) core.checker->write_buffer(dma.buffer, shape.dims, count, at, op != Op::Mov);
    uint8_t* to = core.views[dma.buffer].base + at * bytes;
    const uint8_t* from = slot.base + i * t.columns * bytes;
    if (op == Op::Mov) copy_elements(to, from, shape.dims, count, bytes, shape.overlapping);
    else combine_elements(op, type, to, from, shape.dims, count);
  }
}

void run_tile_copy(Core& core, const Matrix& operands) {
  const auto [s, d, from_number, to_number, from, to] = core.pair(operands);
  if (from.rows > d.rows || from.columns > d.columns)
    throw Fault(
        extents(from.rows, from.columns) + " exceeds tile " + d.name + ", which is " +
        extents(d.rows, d.columns));
  core.refuse_overlap("Y", operands.b.tile, to_number, operands.a.tile, from_number);
  if (core.checker) core.checker->tile_copy(operands, from_number, to_number);
  to.set_extents(from.rows, from.columns);
  CopyDim dims[2] = {{from.rows, d.columns, s.columns}, {from.columns, 1, 1}};
  const int count = simplify(dims, 2);
  const int64_t bytes = type_bytes(s.type);
  if (count >= 0) copy_elements(to.base, from.base, dims, count, bytes, false);
}

void run_window_copy(Core& core, const Windows& operands) {
  const Matrix& tiles = operands.tiles;
  const auto [s, d, from_number, to_number, from, to] = core.pair(tiles);
  CopyDim dims[kMostDims];
  const int all = int(operands.dims.size());
  int64_t rows = 1, columns = 1;
  Wide last = 0, start = 0; // elements of the slot: the last one, and the one at index 0
  for (int k = all - 1; k >= 0; --k) {
    const bool row = k < operands.row_dims;
    int64_t& side = row ? rows : columns;
    const int64_t most = row ? d.rows : d.columns;
    const int64_t extent = extent_of(core, operands.dims[k].extent, most);
    const int64_t stride = core.value(operands.dims[k].stride);
    dims[k] = {extent, side * (row ? d.columns : 1), stride};
    if (extent > 1)
      (stride < 0 ? start : last) += Wide(stride < 0 ? -Wide(stride) : stride) * (extent - 1);
    side *= extent;
    if (side > most)
      throw Fault("the extents exceed tile " + d.name + ", which is " + extents(d.rows, d.columns));
  }
  last += start;
  const bool empty = rows == 0 || columns == 0;
  if (!empty && last >= Wide(s.rows) * s.columns)
    throw Fault(
        "the windows reach element " + std::to_string(int64_t(last)) + " of " + s.name +
        ", which has " + std::to_string(int64_t(s.rows) * s.columns));
  core.refuse_overlap("Y", tiles.b.tile, to_number, tiles.a.tile, from_number);
  if (core.checker)
    core.checker->window_copy(
        tiles, from_number, to_number, dims, all, int64_t(start), rows, columns);
  to.set_extents(rows, columns);
  if (empty) return;
  const int64_t bytes = type_bytes(s.type);
  const int count = simplify(dims, all);
  copy_elements(to.base, from.base + int64_t(start) * bytes, dims, count, bytes, false);
}

} // namespace ftm
