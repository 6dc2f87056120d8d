// Checked mode: detects faults of the program while it runs.
//
// Every byte of scratchpad is tagged with the slot that wrote it, and every writable byte of DDR
// and GSM with the core and the epoch (the number of barriers before) of its last write. Tags that
// cores share are read and written atomically. Transfers stay in flight until the program waits for
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strided_copy.h"
#include "core_state.h"

namespace ftm {

// Shared by the cores of one job.
struct Shadow {
  static constexpr int32_t kGsm = 0;
  std::vector<std::vector<uint32_t>>
      regions; // tags per byte, see Checker::tag: of GSM, then of regions of DDR
  struct Home {
    int32_t region; // -1: never written, always initialized
    int64_t offset;
  };
  std::vector<Home> homes; // of each buffer
  std::vector<uint32_t> gsm_owner; // per byte: 1 + the slot that wrote it; for a buffer, 1 + its
                                   // number after those of all slots

  std::vector<uint32_t>& gsm() { return regions[kGsm]; }

  Shadow(const Program& program, uint8_t* const* buffers);
};

class Checker {
 public:
  Checker(Core& core, Shadow& shadow);

  void read_element(int32_t buffer, int64_t at);
  void write_element(int32_t buffer, int64_t at);
  void wait(int32_t number);
  void wait_all() { flights_.clear(); }
  void next_epoch() { ++epoch_; }
  // dims: not yet simplified; `to` is in the tile, `from` in the buffer.
  void load(
      const Dma& dma, int32_t number, int64_t rows, int64_t columns, const CopyDim* dims, int count,
      int64_t at);
  void store(
      const Dma& dma, int32_t number, int64_t rows, int64_t columns, const CopyDim* dims, int count,
      int64_t at);
  void gather(const Dma& dma, int32_t index, int32_t number, int64_t rows, int64_t columns);
  void scatter(const Dma& dma, int32_t index, int32_t number, int64_t rows, int64_t columns);
  // One row of a row transfer. dims: a read steps by `from` in the buffer, a write by `to`.
  void read_buffer(int32_t buffer, const CopyDim* dims, int count, int64_t at);
  void write_buffer(int32_t buffer, const CopyDim* dims, int count, int64_t at, bool combine);
  void gather_elements(int32_t buffer, const uint64_t* places, int64_t n);
  void tile_copy(const Matrix& operands, int32_t from, int32_t to);
  // dims: `from` is in the slot of X, from element `at` on.
  void window_copy(
      const Matrix& operands, int32_t from, int32_t to, const CopyDim* dims, int count, int64_t at,
      int64_t rows, int64_t columns);
  void matrix(
      const Matrix& operands, int32_t a, int32_t b, int32_t c, int64_t m, int64_t n, bool acc);
  // dims: `from` is in the slot of A, from element `at` on.
  void windows(
      const Matrix& operands, int32_t a, int32_t b, int32_t c, const CopyDim* dims, int count,
      int64_t at, int64_t m, int64_t n, bool acc);
  void rearrange(const Matrix& operands, int32_t from, int32_t to, int64_t rows, int64_t columns);
  void scan(const Matrix& operands, int32_t x, int32_t carry, int32_t y);
  void sort(const Matrix& operands, int32_t from, int32_t to, int32_t kept);
  void merge(const Matrix& operands, int32_t a, int32_t b, int32_t y);
  void map_input(int32_t tile, int32_t number, int64_t rows, int64_t columns);
  void map_output(
      const MapPlan& plan, int32_t tile, int32_t number, int64_t rows, int64_t columns,
      bool accumulate);

 private:
  struct Flight {
    int32_t number, tile;
    bool into; // whether it writes the slot, instead of reading it
    uint32_t line;
  };

  std::string name(int32_t tile, int32_t number) const { return core_.name(tile, number); }
  std::string owner_name(uint32_t owner) const;
  // The tag of a buffer in Shadow::gsm_owner.
  uint32_t gsm_owner(int32_t buffer) const { return uint32_t(core_.program->slots + buffer) + 1; }
  int64_t start(int32_t tile, int32_t number) const { return core_.start(tile, number); }
  void read_in_place(int32_t tile, int32_t number, const CopyDim* dims, int count, int64_t at);
  void idle(int32_t tile, int32_t number, bool writes) const;
  void fly(int32_t tile, int32_t number, bool into);
  void read_tile(int32_t tile, int32_t number, int64_t rows, int64_t columns);
  void read_row(int32_t tile, int32_t number, int64_t row, int64_t first, int64_t end);
  void write_tile(int32_t tile, int32_t number, int64_t rows, int64_t columns);
  void within(int32_t tile, int32_t number, int64_t rows, int64_t columns) const;
  template <class F>
  void each(const CopyDim* dims, int count, int64_t at, bool to, F f);
  uint32_t tag() const { return epoch_ << 8 | uint32_t(core_.id); }
  bool foreign(uint32_t tag) const {
    return tag >> 8 == epoch_ && (tag & 255) != uint32_t(core_.id);
  }

  Core& core_;
  Shadow& shadow_;
  std::vector<uint32_t> owner_[3]; // of AM and SM, per byte: 1 + the slot that wrote it
  std::vector<Flight> flights_;
  uint32_t epoch_ = 2; // before the first barrier; data from before the program has epoch 1
};

} // namespace ftm
