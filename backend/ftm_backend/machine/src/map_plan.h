// A map body, compiled to operations on strips.
//
// A strip is a run of elements that each operation of the body handles in one call. A tile is cut
// in one of two ways: along a row (a `.col` input is then one element), or across whole rows (a
// `.col` input is then expanded). A body has one list of operations for each way.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/table.h"
#include "types.h"

namespace ftm {

struct Program;

enum class Place : uint8_t { None, Strip, Input, Output, Cell, Splat };

// Where an operation reads or writes a value. Cell: one element, the same for the whole strip.
// Splat: a strip filled with a cell.
struct Spot {
  Place place = Place::None;
  uint16_t index = 0;
};

// Strip: an operation of the table. Convert: between strip types, or float32 rounded to a half.
// Native: a run of other operations, as a function of the host.
enum class Kind : uint8_t { Strip, Convert, LoadHalf, StoreHalf, Index, Philox, Gather, Native };

struct StripOp {
  Kind kind;
  Op op; // Strip
  Type type; // Strip: of the computation; Gather: of the elements; others: of the result
  Type from; // Convert: strip type of the operand
  StripFn fn; // Strip, Convert, LoadHalf, StoreHalf
  Spot dst, src[3];
  int32_t buffer = -1; // Gather
  int64_t address = 0; // Gather: element offset, plus a register; Native: of the function
  int32_t address_register = 0;
  uint32_t line = 0;
};

// A value that is constant over a map, or over a row of it.
struct Cell {
  enum class From : uint8_t { Bits, Scalar, Register, One, Column } from;
  Type type; // strip type of the value, after rounding to `round`
  Type round; // the operation's type
  uint16_t index; // scalar, register or input
  uint64_t bits;
};

struct MapInput {
  int32_t tile;
  int64_t slot_immediate;
  int32_t slot_register;
  uint8_t access; // isa::FTM_ACCESS_*
  Type type;
  bool overwritten; // whether an output's tile may share memory with it

  // Whether to copy it before the map runs: its one row is read for every row of the outputs.
  bool needs_snapshot() const { return overwritten && access == isa::FTM_ACCESS_ROW; }
};

struct MapOutput {
  int32_t tile;
  int64_t slot_immediate;
  int32_t slot_register;
  uint8_t scope; // isa::FTM_SCOPE_*
  Reduction reduction;
  bool accumulate;
  Type type;
};

struct StripCode {
  std::vector<StripOp> ops;
  std::vector<Spot> results; // values of the reduced outputs; the operations write full ones
  std::vector<uint16_t> splats; // cells to expand, in order of splat number
  std::vector<int64_t> strips; // byte offset of each strip register in the strip space
  int64_t splat_offset = 0; // of splat 0; each takes splat_stride bytes
  int64_t stage_offset = 0; // of the staging strip of input 0, then of the outputs
  int64_t stride = 0; // bytes of a splat or a staging strip
  int64_t bytes = 0;
  std::vector<uint16_t> sums; // outputs that translated code reduces in registers
  bool whole = false; // the body is one translated function, which loops over rows
};

struct MapBody {
  StripCode along; // strips along a row
  StripCode across; // strips of whole rows
};

struct MapPlan {
  std::vector<MapInput> inputs;
  std::vector<MapOutput> outputs;
  std::vector<Cell> cells;
  MapBody strips; // calls a kernel for each operation
  std::unique_ptr<MapBody> native; // calls code of the host where there is some; may be missing
  int64_t strip = 0; // elements of a strip
  bool any_cut = false; // whether both ways of cutting give the same: no sums across rows
  bool flat = false; // no broadcasts and no reductions but to 1x1, so rows do not matter
  bool positions = false; // whether it has VIDX
  uint32_t line = 0;
};

} // namespace ftm
