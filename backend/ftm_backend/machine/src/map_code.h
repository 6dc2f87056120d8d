// The two halves of compiling a map body: from the image's operations to operations on values
// (map_compile.cpp), and from values to strip registers (map_allocate.cpp).
#pragma once

#include <vector>

#include "map_plan.h"

namespace ftm {

// A value of the body: each is written once.
struct MapValue {
  Type type; // the body's type; a half is held as float32
  Spot spot; // Strip: the register is chosen by allocate()
  int first = -1; // operation that writes it, or -1 for inputs and cells
  int last = -1; // last operation that reads it; kAtEnd when a store or a reduction does
};
constexpr int kAtEnd = 1 << 30;

struct ValueOp {
  StripOp op; // its spots are filled in by allocate()
  int dst;
  int src[3] = {-1, -1, -1};
  uint8_t scalars = 0; // bit k: operand k is a cell read as one element; other cells are expanded
};

struct ValueCode {
  std::vector<MapValue> values;
  std::vector<ValueOp> ops;
  std::vector<int> results; // value of each output
};

// Chooses a place for every value, and the length of a strip for both ways of cutting.
void allocate(const Program& program, MapPlan& plan, ValueCode& along, ValueCode& across);

} // namespace ftm
