// Transfers that need not copy: a map or a product reads its input in the buffer that a DLD names,
// and writes its result to the buffer that a DST names.
//
// Examples: `DLD x -> T0; @map T0 -> T1; DST T1 -> y` becomes one loop that reads x and writes y.
// `DLD w -> T0; MM v, T0, T1` multiplies a vector by a matrix in memory, also if the elements of T0
// are windows of an image (direct_operands.h). If v turns out to have many rows, the product copies
// the matrix first. A gather also writes its rows to the buffer.
//
// Whether a program may do so is decided when it is loaded, from the instructions that refer to a
// tile. Whether a transfer does so is decided when it runs, from its shape and addresses.
#pragma once

#include "program.h"

namespace ftm {

// Sets Dma::lends of loads and TileDecl::stored_by of tiles. Of maps only translated ones access
// buffers: the strip kernels may read past the end of their operands.
void elide_copies(Program& program);

} // namespace ftm
