#include "checker.h"

#include <algorithm>

namespace ftm {
namespace {

constexpr uint32_t kInitial = 1 << 8; // tag of data from before the program started

constexpr uint8_t kOutput = 1, kArena = 3, kInGsm = 4; // isa::BufferKind

} // namespace

Shadow::Shadow(const Program& program, uint8_t* const* buffers)
    : regions(1, std::vector<uint32_t>(size_t(program.space_bytes[3]))),
      gsm_owner(size_t(program.space_bytes[3])) {
  int32_t arena = -1;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferDecl& b = program.buffers[i];
    Home home{-1, 0};
    if (b.kind == kOutput) {
      bool shared = false; // whether an input, which is initialized, has the same memory
      for (int32_t k = 0; k < program.inputs; ++k)
        if (buffers[k] == buffers[i] && b.bytes > 0) {
          shared = true;
          homes[k] = {int32_t(regions.size()), 0};
        }
      home.region = int32_t(regions.size());
      regions.emplace_back(size_t(b.bytes), shared ? kInitial : 0);
    } else if (b.kind == kArena) {
      if (arena < 0) {
        arena = int32_t(regions.size());
        regions.emplace_back(size_t(program.arena_bytes), 0);
      }
      home = {arena, b.offset};
    } else if (b.kind == kInGsm) {
      home = {kGsm, b.offset};
    }
    homes.push_back(home);
  }
}

Checker::Checker(Core& core, Shadow& shadow) : core_(core), shadow_(shadow) {
  for (int space = 1; space <= 2; ++space)
    owner_[space].assign(size_t(core.program->space_bytes[space]), 0);
}

// Faults if a transfer in flight conflicts with reading (or writing) the slot.
void Checker::idle(int32_t tile, int32_t number, bool writes) const {
  for (const Flight& f : flights_)
    if ((writes || f.into) && core_.touch(tile, number, f.tile, f.number))
      throw Fault(
          (writes ? "writes " : "reads ") + name(tile, number) + " while the transfer of line " +
          std::to_string(f.line) + (f.into ? " into " : " from ") + name(f.tile, f.number) +
          " is in flight: put `DWAIT " + name(f.tile, f.number) + "` before");
}

void Checker::fly(int32_t tile, int32_t number, bool into) {
  flights_.push_back({number, tile, into, core_.program->steps[core_.step].line});
}

void Checker::wait(int32_t number) {
  size_t kept = 0;
  for (const Flight& f : flights_)
    if (f.number != number) flights_[kept++] = f;
  flights_.resize(kept);
}

void Checker::within(int32_t tile, int32_t number, int64_t rows, int64_t columns) const {
  const Slot& slot = core_.slot(tile, number);
  if (rows > slot.rows || columns > slot.columns)
    throw Fault(
        "takes " + extents(rows, columns) + " of " + name(tile, number) +
        ", whose current extents are " + extents(slot.rows, slot.columns));
}

void Checker::read_tile(int32_t tile, int32_t number, int64_t rows, int64_t columns) {
  within(tile, number, rows, columns);
  idle(tile, number, false);
  for (int64_t i = 0; i < rows; ++i) read_row(tile, number, i, 0, columns);
}

// Reads elements first .. end - 1 of one row.
void Checker::read_row(int32_t tile, int32_t number, int64_t row, int64_t first, int64_t end) {
  const TileDecl& t = core_.tile(tile);
  const int64_t bytes = type_bytes(t.type),
                start_of_row = start(tile, number) + row * t.columns * bytes;
  const std::vector<uint32_t>& owner = t.space == 3 ? shadow_.gsm_owner : owner_[t.space];
  for (int64_t b = start_of_row + first * bytes; b < start_of_row + end * bytes; ++b) {
    const uint32_t by = read_shared(owner[b]);
    if (by == uint32_t(number) + 1) {
      if (t.space == 3 && foreign(read_shared(shadow_.gsm()[b])))
        throw Fault(
            "reads " + name(tile, number) + ", which another core wrote since the last BARRIER");
      continue;
    }
    const std::string where = "element (" + std::to_string(row) + ", " +
                              std::to_string((b - start_of_row) / bytes) + ") of " +
                              name(tile, number);
    if (by == 0) throw Fault("reads " + where + ", which was never written");
    throw Fault("reads " + where + ", where " + owner_name(by) + " has been written since");
  }
}

// Describes a tag of `owner_` or `Shadow::gsm_owner`.
std::string Checker::owner_name(uint32_t owner) const {
  const Program& p = *core_.program;
  const int32_t number = int32_t(owner) - 1;
  if (number >= p.slots) return p.buffers[size_t(number - p.slots)].name;
  size_t tile = 0;
  while (number >= p.tiles[tile].first_slot + p.tiles[tile].depth) ++tile;
  return name(int32_t(tile), number);
}

void Checker::write_tile(int32_t tile, int32_t number, int64_t rows, int64_t columns) {
  idle(tile, number, true);
  const TileDecl& t = core_.tile(tile);
  const int64_t bytes = type_bytes(t.type);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = start(tile, number) + i * t.columns * bytes, end = row + columns * bytes;
    if (t.space != 3) std::fill(&owner_[t.space][row], &owner_[t.space][end], uint32_t(number) + 1);
    for (int64_t b = row; b < end && t.space == 3; ++b) {
      // If two cores write concurrently, one of them finds the other's tag.
      const uint32_t before = __atomic_exchange_n(&shadow_.gsm()[b], tag(), __ATOMIC_RELAXED);
      if (foreign(before))
        throw Fault(
            "writes " + name(tile, number) + ", where another core wrote since the last BARRIER");
      write_shared(shadow_.gsm_owner[b], uint32_t(number) + 1);
    }
  }
}

void Checker::read_element(int32_t buffer, int64_t at) {
  const View& view = core_.views[buffer];
  const Shadow::Home& home = shadow_.homes[size_t(view.buffer)];
  if (home.region < 0) return;
  const BufferDecl& b = core_.program->buffers[size_t(view.buffer)];
  at += view.start;
  const int64_t bytes = type_bytes(b.type);
  const uint32_t* tags = &shadow_.regions[home.region][home.offset + at * bytes];
  for (int64_t k = 0; k < bytes; ++k) {
    const uint32_t tag = read_shared(tags[k]);
    if (tag == 0)
      throw Fault(
          "reads element " + std::to_string(at) + " of " + b.name + ", which was never written");
    if (home.region == Shadow::kGsm) {
      const uint32_t by = read_shared(shadow_.gsm_owner[size_t(home.offset + at * bytes + k)]);
      if (by != gsm_owner(view.buffer))
        throw Fault(
            "reads element " + std::to_string(at) + " of " + b.name + ", where " + owner_name(by) +
            " has been written since");
    }
    if (foreign(tag))
      throw Fault(
          "reads element " + std::to_string(at) + " of " + b.name + ", which core " +
          std::to_string(tag & 255) + " wrote since the last BARRIER");
  }
}

void Checker::write_element(int32_t buffer, int64_t at) {
  const View& view = core_.views[buffer];
  const Shadow::Home& home = shadow_.homes[size_t(view.buffer)];
  const BufferDecl& b = core_.program->buffers[size_t(view.buffer)];
  at += view.start;
  if (home.region < 0) throw Fault("writes to " + b.name + ", which is no output");
  const int64_t bytes = type_bytes(b.type);
  uint32_t* tags = &shadow_.regions[home.region][home.offset + at * bytes];
  for (int64_t k = 0; k < bytes; ++k) {
    // If two cores write concurrently, one of them finds the other's tag at the first byte.
    const uint32_t before =
        k == 0 ? __atomic_exchange_n(tags, tag(), __ATOMIC_RELAXED) : read_shared(tags[k]);
    if (foreign(before))
      throw Fault(
          "writes element " + std::to_string(at) + " of " + b.name + ", which core " +
          std::to_string(before & 255) + " wrote since the last BARRIER");
    write_shared(tags[k], tag());
    if (home.region == Shadow::kGsm)
      write_shared(shadow_.gsm_owner[size_t(home.offset + at * bytes + k)], gsm_owner(view.buffer));
  }
}

// Calls f(offset in the buffer) for each element of nested loops.
template <class F>
void Checker::each(const CopyDim* dims, int count, int64_t at, bool to, F f) {
  if (count <= 0) return f(at);
  for (int64_t i = 0; i < dims[0].extent; ++i)
    each(dims + 1, count - 1, at + i * (to ? dims[0].to : dims[0].from), to, f);
}

void Checker::read_buffer(int32_t buffer, const CopyDim* dims, int count, int64_t at) {
  each(dims, count, at, false, [&](int64_t e) { read_element(buffer, e); });
}

void Checker::write_buffer(
    int32_t buffer, const CopyDim* dims, int count, int64_t at, bool combine) {
  each(dims, count, at, true, [&](int64_t e) {
    if (combine) read_element(buffer, e);
    write_element(buffer, e);
  });
}

void Checker::gather_elements(int32_t buffer, const uint64_t* places, int64_t n) {
  for (int64_t i = 0; i < n; ++i) read_element(buffer, int64_t(places[i]));
}

void Checker::load(
    const Dma& dma, int32_t number, int64_t rows, int64_t columns, const CopyDim* dims, int count,
    int64_t at) {
  each(dims, count, at, false, [&](int64_t e) {
    const int64_t found = dma.border < 0 ? e : core_.program->borders[size_t(dma.border)].place(e);
    if (found >= 0) read_element(dma.buffer, found);
  });
  write_tile(dma.data.tile, number, rows, columns);
  fly(dma.data.tile, number, true);
}

void Checker::store(
    const Dma& dma, int32_t number, int64_t rows, int64_t columns, const CopyDim* dims, int count,
    int64_t at) {
  read_tile(dma.data.tile, number, rows, columns);
  each(dims, count, at, false, [&](int64_t e) { write_element(dma.buffer, e); });
  fly(dma.data.tile, number, false);
}

void Checker::gather(const Dma& dma, int32_t index, int32_t number, int64_t rows, int64_t columns) {
  const Slot& slot = core_.slot(dma.index.tile, index);
  read_tile(dma.index.tile, index, slot.rows, slot.columns);
  write_tile(dma.data.tile, number, rows, columns);
  fly(dma.data.tile, number, true);
}

void Checker::scatter(
    const Dma& dma, int32_t index, int32_t number, int64_t rows, int64_t columns) {
  const Slot& slot = core_.slot(dma.index.tile, index);
  read_tile(dma.index.tile, index, slot.rows, slot.columns);
  read_tile(dma.data.tile, number, rows, columns);
  fly(dma.data.tile, number, false);
}

void Checker::tile_copy(const Matrix& operands, int32_t from, int32_t to) {
  const Slot& slot = core_.slot(operands.a.tile, from);
  read_tile(operands.a.tile, from, slot.rows, slot.columns);
  write_tile(operands.b.tile, to, slot.rows, slot.columns);
  fly(operands.a.tile, from, false);
  fly(operands.b.tile, to, true);
}

void Checker::matrix(
    const Matrix& operands, int32_t a, int32_t b, int32_t c, int64_t m, int64_t n, bool acc) {
  const Slot& sa = core_.slot(operands.a.tile, a);
  const Slot& sb = core_.slot(operands.b.tile, b);
  read_tile(operands.a.tile, a, sa.rows, sa.columns);
  read_tile(operands.b.tile, b, sb.rows, sb.columns);
  if (acc) read_tile(operands.c.tile, c, m, n);
  write_tile(operands.c.tile, c, m, n);
}

void Checker::read_in_place(
    int32_t tile, int32_t number, const CopyDim* dims, int count, int64_t at) {
  const Slot& slot = core_.slot(tile, number);
  const int64_t pitch = core_.tile(tile).columns;
  idle(tile, number, false);
  each(dims, count, at, false, [&](int64_t e) {
    const int64_t row = e / pitch, column = e % pitch;
    if (row >= slot.rows || column >= slot.columns)
      throw Fault(
          "takes element (" + std::to_string(row) + ", " + std::to_string(column) + ") of " +
          name(tile, number) + ", whose current extents are " + extents(slot.rows, slot.columns));
    read_row(tile, number, row, column, column + 1);
  });
}

void Checker::window_copy(
    const Matrix& operands, int32_t from, int32_t to, const CopyDim* dims, int count, int64_t at,
    int64_t rows, int64_t columns) {
  read_in_place(operands.a.tile, from, dims, count, at);
  write_tile(operands.b.tile, to, rows, columns);
  fly(operands.a.tile, from, false);
  fly(operands.b.tile, to, true);
}

void Checker::windows(
    const Matrix& operands, int32_t a, int32_t b, int32_t c, const CopyDim* dims, int count,
    int64_t at, int64_t m, int64_t n, bool acc) {
  const Slot& sb = core_.slot(operands.b.tile, b);
  read_in_place(operands.a.tile, a, dims, count, at);
  read_tile(operands.b.tile, b, sb.rows, sb.columns);
  if (acc) read_tile(operands.c.tile, c, m, n);
  write_tile(operands.c.tile, c, m, n);
}

void Checker::rearrange(
    const Matrix& operands, int32_t from, int32_t to, int64_t rows, int64_t columns) {
  const Slot& slot = core_.slot(operands.a.tile, from);
  read_tile(operands.a.tile, from, slot.rows, slot.columns);
  write_tile(operands.b.tile, to, rows, columns);
}

void Checker::scan(const Matrix& operands, int32_t x, int32_t carry, int32_t y) {
  const Slot& slot = core_.slot(operands.a.tile, x);
  const Slot& held = core_.slot(operands.b.tile, carry);
  read_tile(operands.a.tile, x, slot.rows, slot.columns);
  read_tile(operands.b.tile, carry, held.rows, held.columns);
  write_tile(operands.c.tile, y, slot.rows, slot.columns);
  write_tile(operands.b.tile, carry, held.rows, held.columns);
}

void Checker::sort(const Matrix& operands, int32_t from, int32_t to, int32_t kept) {
  const Slot& slot = core_.slot(operands.a.tile, from);
  read_tile(operands.a.tile, from, slot.rows, slot.columns);
  write_tile(operands.b.tile, to, slot.rows, kept);
}

void Checker::merge(const Matrix& operands, int32_t a, int32_t b, int32_t y) {
  const Slot& sa = core_.slot(operands.a.tile, a);
  const Slot& sb = core_.slot(operands.b.tile, b);
  read_tile(operands.a.tile, a, sa.rows, sa.columns);
  read_tile(operands.b.tile, b, sb.rows, sb.columns);
  write_tile(operands.c.tile, y, sa.rows, sa.columns + sb.columns);
}

void Checker::map_input(int32_t tile, int32_t number, int64_t rows, int64_t columns) {
  read_tile(tile, number, rows, columns);
}

void Checker::map_output(
    const MapPlan& plan, int32_t tile, int32_t number, int64_t rows, int64_t columns,
    bool accumulate) {
  if (accumulate) read_tile(tile, number, rows, columns);
  for (const MapInput& in : plan.inputs) {
    const int32_t other =
        core_.slot_number(in.tile, core_.value({in.slot_immediate, in.slot_register}));
    if ((in.tile != tile || other != number) && core_.touch(tile, number, in.tile, other))
      throw Fault("output " + name(tile, number) + " overlaps input " + name(in.tile, other));
  }
  write_tile(tile, number, rows, columns);
}

} // namespace ftm
