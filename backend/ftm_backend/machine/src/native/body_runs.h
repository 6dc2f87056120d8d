// Cuts a map body into runs of operations that become one function each, and decides which
// reductions a function computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "map_plan.h"

namespace ftm::native {

constexpr size_t kMostPointers = 8; // inputs and outputs that a function can access

inline bool in_memory(Spot s) {
  return s.place == Place::Input || s.place == Place::Output;
}
inline bool is_cell(Spot s) {
  return s.place == Place::Cell || s.place == Place::Splat;
}
inline bool same(Spot a, Spot b) {
  return a.place == b.place && a.index == b.index;
}
inline uint16_t cell_of(const StripCode& body, Spot s) {
  return s.place == Place::Splat ? body.splats[s.index] : s.index;
}

// Bytes of the widest element that an operation reads or writes.
int widest(const StripOp& op);

// The input or output whose address a function needs to access a spot; none for strips and cells
// that the caller loads.
Spot pointer_of(const MapPlan& plan, const StripCode& body, Spot s);

// The end of the run that starts at `first`: before an operation without vector code, or one that
// needs one address too many.
size_t end_of_run(const MapPlan& plan, const StripCode& body, size_t first);

// The outputs that the run from operation `first` to the end can reduce in registers: all that are
// reduced along rows, or none. A function needs 16 lanes to add in the order of the strip kernels.
std::vector<uint16_t> sums_of(const MapPlan& plan, const StripCode& body, size_t first);

// Whether a body that became one function needs its caller only for the first address of each
// operand.
bool is_whole(const MapPlan& plan, const StripCode& body, const StripCode& result);

// Removes the splats that only translated operations read.
void drop_splats(const MapPlan& plan, StripCode& body);

} // namespace ftm::native
