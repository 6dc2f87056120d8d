// Copies between two n-dimensional strided places.
#pragma once

#include <cstdint>

#include "types.h"

namespace ftm {

// One loop of a copy; strides in elements.
struct CopyDim { int64_t extent, to, from; };

// Drops loops of extent 1 and joins loops that step evenly through one another, outermost first.
// Returns how many loops are left, or -1 when an extent is 0.
int simplify(CopyDim* dims, int count);

// to[sum i_k to_k] = from[sum i_k from_k].  dims as left by simplify.  `ordered`: destinations may
// coincide, so that the loops must run in the order given (the last write wins).
void copy_elements(
    uint8_t* to, const uint8_t* from, const CopyDim* dims, int count, int64_t element_bytes,
    bool ordered);

} // namespace ftm
