// State of one core while it runs a program, and declarations of the larger instructions.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "strided_copy.h"
#include "program.h"

namespace ftm {

class Checker;
class Collectives;
class SpanLog;
struct MapScratch;

// A fault of the program. The interpreter adds the line to the message.
struct Fault : std::runtime_error { using std::runtime_error::runtime_error; };

// The run was stopped by ftm_interrupt.
struct Interrupted : Fault {
  Interrupted() : Fault("was interrupted") {}
};

// Progress of a run. It is stopped only while it is `whole`: afterwards it has started a
// collective, and then perhaps overwritten a donated input, or only the latter.
enum class Phase : uint8_t { whole, communicated, overwritten, stopping };

// Relaxed atomic accesses to state that cores of an incorrect program, which lacks a BARRIER, may
// write concurrently: each read returns a value that was written.
template <class T>
T read_shared(const T& at) {
  return __atomic_load_n(&at, __ATOMIC_RELAXED);
}
template <class T>
void write_shared(T& at, T value) {
  __atomic_store_n(&at, value, __ATOMIC_RELAXED);
}

// A number with relaxed atomic accesses.
template <class T>
class Relaxed {
 public:
  Relaxed(T n = 0) : n_(n) {}
  Relaxed(const Relaxed& other) : n_(T(other)) {}
  Relaxed& operator=(const Relaxed& other) { return *this = T(other); }
  Relaxed& operator=(T n) {
    write_shared(n_, n);
    return *this;
  }
  operator T() const { return read_shared(n_); }

 private:
  T n_;
};

// One slot of a tile's ring: its memory, and its current extents, which never exceed the tile's.
struct Slot {
  uint8_t* base;
  Relaxed<int32_t> rows, columns;
  uint8_t* lent = nullptr; // where the elements are instead, see copy_elision.h
  int64_t row_bytes = 0; // distance of lent rows, whose elements are adjacent
  int32_t loops = -1; // lent by these of Core::lent_loops instead
  bool stored = false; // the elements are already in the buffer of the next DST
  Relaxed<uint64_t> writes; // instructions that wrote the slot, see PackedOperand

  // Called by each instruction that writes the slot.
  void set_extents(int64_t r, int64_t c) {
    rows = int32_t(r);
    columns = int32_t(c);
    writes = writes + 1;
  }
};

// The loops of a load that lends: first those of the tile's rows; `from` is in the buffer.
struct LentLoops {
  CopyDim dims[kMostDims];
  int32_t row_dims = 0, count = 0;
  int64_t behind = 0; // elements of the buffer after the last one
};

// Operands of an instruction from one tile to another.
struct Pair {
  const TileDecl &s, &d; // X and Y as declared
  int32_t from_number, to_number; // of their slots
  Slot from; // a copy: X before anything is written
  Slot& to;
};

// The memory of a buffer; for a parameter from the bound address on.
struct View {
  uint8_t* base;
  int64_t elements;
  int32_t buffer; // of the program
  bool donated; // an output that has the address of an input
  int64_t start; // element of the buffer
};

struct Counters {
  uint64_t instructions = 0, dma_bytes = 0, mm_flops = 0, map_elements = 0, map_operations = 0;
};

// Memory that is 64-byte aligned and may be read up to kSlack bytes past its end.
class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  // Grows to at least `bytes`, losing the contents. Throws std::bad_alloc.
  uint8_t* ensure(int64_t bytes);
  uint8_t* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  uint8_t* data_ = nullptr;
  int64_t size_ = 0;
};

// The last B that was packed for tile registers. A loop over rows of A multiplies all by one B,
// which is packed again only if its slot was written in between.
struct PackedOperand {
  Memory memory;
  const Slot* slot = nullptr; // null: of no slot
  uint64_t writes = 0; // of the slot, when it was packed
  bool transposed = false;
};

// Addition modulo 2^64, as in the scalar unit.
inline int64_t wrapping_add(int64_t a, int64_t b) {
  return int64_t(uint64_t(a) + uint64_t(b));
}

struct Core {
  Core();
  ~Core();

  const Program* program = nullptr;
  int32_t id = 0, count = 1;
  int64_t* r = nullptr; // the register file, see Source
  View* views = nullptr; // of each buffer of the program
  std::atomic<Phase>* phase = nullptr;
  uint64_t most_instructions = 0; // UINT64_MAX: unlimited
  Slot* slots = nullptr; // this core's
  Slot* shared_slots = nullptr; // those of GSM tiles
  uint8_t* strips = nullptr; // Program::strip_bytes
  Memory work; // scratch of matrix products and sorts
  Memory sums; // scratch of reductions
  std::vector<LentLoops> lent_loops; // by the number of the slot
  PackedOperand packed;
  std::unique_ptr<MapScratch> map_scratch;
  Checker* checker = nullptr; // in checked mode
  SpanLog* spans = nullptr; // if spans are recorded
  Collectives* collectives = nullptr;
  Counters counters;
  // Where `run_core` goes on.
  uint32_t at = 0;
  bool is_at_barrier = false;
  int64_t waits_since = 0; // nanoseconds, if spans are recorded
  uint64_t executed = 0;
  std::vector<uint32_t> returns;
  uint32_t step = 0; // the current instruction, for messages

  int64_t value(const Source& s) const { return wrapping_add(r[s.reg], s.immediate); }
  const TileDecl& tile(int32_t index) const { return program->tiles[index]; }

  // Returns the number of a slot among all slots of the program.
  int32_t slot_number(int32_t tile_index, int64_t slot) const {
    const TileDecl& t = program->tiles[tile_index];
    if (t.depth == 1) return t.first_slot;
    int64_t k = slot % t.depth;
    return t.first_slot + int32_t(k < 0 ? k + t.depth : k);
  }
  Slot& slot(int32_t tile_index, int32_t number) const {
    return (program->tiles[tile_index].space == 3 ? shared_slots : slots)[number];
  }
  Slot& slot(const TileRef& ref) const {
    return slot(ref.tile, slot_number(ref.tile, value(ref.slot)));
  }
  int32_t number(const TileRef& ref) const { return slot_number(ref.tile, value(ref.slot)); }
  // Returns the operands of an instruction X to Y.
  Pair pair(const Matrix& operands) const {
    const TileRef &x = operands.a, &y = operands.b;
    const int32_t from = number(x), to = number(y);
    return {tile(x.tile), tile(y.tile), from, to, slot(x.tile, from), slot(y.tile, to)};
  }

  // Returns the offset of a slot in its scratchpad, in bytes.
  int64_t start(int32_t tile_index, int32_t number) const {
    const TileDecl& t = tile(tile_index);
    return t.offset + (number - t.first_slot) * t.slot_bytes;
  }
  // Whether two slots share bytes.
  bool touch(int32_t tile_a, int32_t a, int32_t tile_b, int32_t b) const {
    const TileDecl &ta = tile(tile_a), &tb = tile(tile_b);
    const int64_t sa = start(tile_a, a), sb = start(tile_b, b);
    return ta.space == tb.space && sa < sb + tb.slot_bytes && sb < sa + ta.slot_bytes;
  }
  std::string name(int32_t tile, int32_t number) const;
  // Returns "b3, which has 16 elements"; for a parameter also the bound buffer.
  std::string buffer_name(int32_t buffer) const;
  void bind(const Call& call);
  // Throws Fault if `what`, a slot that is written, shares bytes with another operand.
  void refuse_overlap(
      const char* what, int32_t written_tile, int32_t written, int32_t tile, int32_t number) const;
};

enum class Progress : uint8_t { ended, at_barrier };

// Runs the program from `core.at` to the next barrier, or to its end. Throws Fault.
Progress run_core(Core& core);

void run_load(Core& core, const Dma& dma);
void run_store(Core& core, const Dma& dma);
// Sets where a store would write rows of adjacent elements, for an instruction that writes them
// instead. Returns false if the store has another shape, or would fault.
bool find_destination(
    const Core& core, const Dma& dma, int64_t rows, int64_t columns, uint8_t*& to,
    int64_t& row_bytes);
// Called before a transfer, an instruction for it, or a collective writes to a buffer.
void note_write(const Core& core, int32_t buffer);
void start_collective(Core& core, const CollectiveOperands& operands);
void run_gather(Core& core, const Dma& dma);
void run_scatter(Core& core, const Dma& dma, uint16_t flags);
void run_tile_copy(Core& core, const Matrix& operands);
void run_window_copy(Core& core, const Windows& operands);
void run_matrix(Core& core, const Matrix& operands, uint16_t flags);
void run_windows(Core& core, const Windows& operands, uint16_t flags);
void run_transpose(Core& core, const Matrix& operands);
void run_fold(Core& core, const Windows& operands);
void run_scan(Core& core, const Matrix& operands, uint16_t flags);
void run_sort(Core& core, const Matrix& operands);
void run_merge(Core& core, const Matrix& operands);
void run_map(Core& core, const MapPlan& plan, int64_t rows, int64_t columns);
// Gathers elements `index` of the operation's buffer into a strip.
void gather_elements(Core& core, const StripOp& op, uint8_t* to, const int64_t* index, int64_t n);

std::string extents(int64_t rows, int64_t columns);

} // namespace ftm
