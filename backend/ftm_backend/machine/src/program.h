// A program as the cores run it: the image decoded once into flat records.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/table.h"
#include "map_plan.h"
#include "native/code_memory.h"
#include "types.h"

namespace ftm {

// A rejected image or program; the message is for the user.
struct Error : std::runtime_error { using std::runtime_error::runtime_error; };

// An integer operand: r[reg] + immediate. A core's register file is r0..r63, the program's scalars,
// a zero and a one.
struct Source {
  int64_t immediate;
  int32_t reg;
};

struct BufferDecl {
  std::string name;
  uint8_t kind; // isa::FTM_BUFFER_*
  Type type;
  std::vector<int64_t> shape;
  int32_t alias; // of an output: the input, or -1
  int64_t elements;
  int64_t bytes;
  int64_t offset; // arena, GSM, const: in bytes; input, output: position of the argument;
                  // parameter: whether it is written
};

// What a call binds: an address to a buffer parameter, a value to a scalar parameter's register.
struct Binding {
  int32_t parameter, buffer;
  Source offset;
};
struct ScalarBinding {
  int32_t reg;
  Source value;
};
struct Call {
  int32_t target; // step of the function's start
  std::vector<Binding> buffers;
  std::vector<ScalarBinding> scalars;
};

struct TileDecl {
  std::string name;
  Type type;
  uint8_t space; // 1 AM, 2 SM, 3 GSM
  int32_t depth;
  int32_t rows, columns; // maximal; columns is the leading dimension
  int64_t offset, slot_bytes;
  int32_t first_slot; // number of its slot 0 among all slots of the program
  int32_t stored_by = -1; // the DST whose buffer is written instead, see copy_elision.h
  int64_t bytes() const {
    return slot_bytes * (depth - 1) + int64_t(rows) * columns * type_bytes(type);
  }
};

// Whether any of their slots share bytes.
inline bool overlap(const TileDecl& a, const TileDecl& b) {
  return a.space == b.space && a.offset < b.offset + b.bytes() && b.offset < a.offset + a.bytes();
}

struct TileRef {
  int32_t tile;
  Source slot;
};

constexpr int kMostDims = 16;

struct DmaDim { Source extent, stride; };

constexpr int kMostSides = 4;

// Zero padding of a buffer's innermost dimensions, outermost first.
struct Border {
  int32_t sides = 0;
  int64_t inside[kMostSides], before[kMostSides], whole[kMostSides];

  // Returns the index without padding of the element with padded index `at`; -1 in the padding.
  int64_t place(int64_t at) const {
    int64_t found = 0, unit = 1;
    for (int k = sides - 1; k >= 0; --k) {
      const int64_t i = at % whole[k] - before[k];
      if (i < 0 || i >= inside[k]) return -1;
      found += i * unit;
      unit *= inside[k];
      at /= whole[k];
    }
    return found + at * unit;
  }

  // Returns the padded number of elements of a buffer of `without`; incomplete planes do not count.
  __int128 elements(int64_t without) const {
    int64_t own = 1, all = 1; // as loaded, neither product overflows
    for (int k = 0; k < sides; ++k) own *= inside[k], all *= whole[k];
    return __int128(without / own) * all;
  }
};

// Whether a load's slot may refer to the buffer: for rows of adjacent elements, or for any loops.
enum class Lends : uint8_t { nothing, rows, loops };

struct Dma {
  int32_t buffer;
  Source offset;
  TileRef data, index;
  Source row_stride; // of DGA and DSC
  int32_t row_dims, column_dims;
  std::vector<DmaDim> dims;
  int32_t border; // DLB: index into borders; -1: none
  Lends lends; // DLD, see copy_elision.h
};

struct Matrix { TileRef a, b, c; };

struct CollectiveOperands {
  int32_t kind; // enum ftm_collective_kind
  int32_t reduction; // enum ftm_reduction
  int32_t target, source; // buffers
  Source target_offset, target_count, source_offset, source_count, call;
};

// A product whose A is a strided view of a slot: rows and columns are loops over its memory.
struct Windows {
  Matrix tiles;
  int32_t row_dims;
  std::vector<DmaDim> dims;
};

// One instruction. Without a predicate it tests the register that holds one.
struct Step {
  uint16_t opcode; // isa::FTM_OP_*
  uint16_t flags; // isa::FTM_FLAG_*
  int32_t predicate;
  bool negated;
  int32_t dst;
  int32_t target; // SBR: step; else index into calls, dmas, matrices, ...
  uint32_t line;
  Source a, b;
};

struct Function {
  std::string name;
  uint32_t first, count;
};

struct Program {
  std::string name;
  // inputs, outputs, constants, regions of arena and GSM, parameters of functions
  std::vector<BufferDecl> buffers;
  std::vector<std::string> scalar_names;
  std::vector<Type> scalar_types; // arguments, then parameters of functions
  int32_t inputs = 0, outputs = 0, scalars = 0;
  int64_t arena_bytes = 0;
  std::vector<TileDecl> tiles;
  int32_t slots = 0;
  std::vector<Function> functions;
  std::vector<Step> steps;
  uint32_t entry = 0; // first step of main
  int32_t first_call = 0; // index of main's first call
  std::vector<int64_t> call_ops; // see ftm_call_ops
  std::vector<Call> calls;
  std::vector<Dma> dmas;
  std::vector<Border> borders;
  std::vector<Matrix> matrices;
  std::vector<Windows> windows;
  std::vector<CollectiveOperands> collectives;
  std::vector<std::unique_ptr<MapPlan>> maps;
  native::CodeMemory code; // of the maps
  std::vector<uint8_t> constants;
  std::shared_ptr<const std::string> text; // the assembly, may be empty
  std::array<int64_t, 4> space_bytes{}; // bytes that tiles and regions of GSM need, by space
  int64_t strip_bytes = 0; // strip registers of the map that needs most

  int32_t zero_register() const { return 64 + int32_t(scalar_types.size()); }
  int32_t one_register() const { return zero_register() + 1; }
  int32_t registers() const { return zero_register() + 2; }

  // Returns the DST whose buffer is written instead of the tile, which has one.
  const Dma& store_of(const TileDecl& tile) const {
    return dmas[size_t(steps[size_t(tile.stored_by)].target)];
  }

  // Returns "kernel_0, line 17: DLD b0[r3], ..." for messages about a step.
  std::string where(uint32_t step) const;
};

// Throws Error if the image is damaged, of another version, or exceeds a limit.
std::unique_ptr<Program> load_image(const void* data, size_t size);

} // namespace ftm
