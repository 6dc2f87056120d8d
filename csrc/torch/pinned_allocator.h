// Pinned host memory. The machine's memory is the host's, so pinning has no effect. Tensors that
// are allocated here report that they are pinned, as programs that pin their batches expect.
#pragma once

#include <c10/core/Allocator.h>

namespace ftm {

// Registers the allocator. Call it once.
void register_host_allocator();

// Returns the registered allocator.
at::Allocator* host_allocator();
// Whether the address is in a block of the allocator.
bool is_pinned(const void* address);

} // namespace ftm
