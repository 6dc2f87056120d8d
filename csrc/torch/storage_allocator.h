// The allocator of storages. It allocates no memory; that comes with the values that programs
// compute.
#pragma once

namespace ftm {

// Registers the allocator. Call it once.
void register_allocator();

} // namespace ftm
