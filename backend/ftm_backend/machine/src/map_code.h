// The two phases of compiling a map body: from the image's operations to operations on SSA values
// (map_compile.cpp), then to strip registers (map_allocate.cpp).
#pragma once

#include <vector>

#include "map_plan.h"

namespace ftm {

// An SSA value of the body.
struct MapValue {
  Type type; // the body's type; a half is held as float32
  Spot spot; // Strip: allocate() chooses the register
  int first = -1; // operation that defines it, or -1 for inputs and cells
  int last = -1; // last operation that reads it; kAtEnd if a store or a reduction does
};
constexpr int kAtEnd = 1 << 30;

struct ValueOp {
  StripOp op; // allocate() sets its spots
  int dst;
  int src[3] = {-1, -1, -1};
  uint8_t scalars = 0; // bit k: operand k is a cell read as one element; others are expanded
};

struct ValueCode {
  std::vector<MapValue> values;
  std::vector<ValueOp> ops;
  std::vector<int> results; // value of each output
};

// Chooses a spot for every value, and the length of strips for both ways of cutting a tile.
void allocate(const Program& program, MapPlan& plan, ValueCode& along, ValueCode& across);

} // namespace ftm
