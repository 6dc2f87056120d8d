// Copies between two n-dimensional strided layouts.
#pragma once

#include <cstdint>

#include "types.h"

namespace ftm {

// One loop of a copy; strides in elements.
struct CopyDim { int64_t extent, to, from; };

// Drops loops of extent 1 and fuses loops that form one with a fixed step, outermost first.
// Returns the number of loops, or -1 if an extent is 0.
int simplify(CopyDim* dims, int count);

// Copies to[sum i_k to_k] = from[sum i_k from_k]. dims: as returned by simplify. ordered:
// destination elements may coincide, so the loops must run in the given order (the last write
// wins).
void copy_elements(
    uint8_t* to, const uint8_t* from, const CopyDim* dims, int count, int64_t element_bytes,
    bool ordered);

} // namespace ftm
