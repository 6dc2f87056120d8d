// Transfers that need not copy: a map reads its input in the buffer that a DLD names, and writes
// its result to the buffer that a DST names.
//
// Example: `DLD x -> T0; @map T0 -> T1; DST T1 -> y` becomes one loop that reads x and writes y.
// A gather also writes its rows to the buffer.
//
// Whether a program may do so is decided when it is loaded, from the instructions that refer to a
// tile. Whether a transfer does so is decided when it runs, from its shape and addresses.
#pragma once

#include "program.h"

namespace ftm {

// Sets Dma::lends of loads and TileDecl::stored_by of tiles. Only translated maps access buffers:
// the strip kernels may read past the end of their operands.
void find_direct_access(Program& program);

} // namespace ftm
