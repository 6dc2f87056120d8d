// Pinned memory. The machine's memory is the host's, so that any host memory could serve; what is
// allocated here says of itself that it is pinned, as programs that pin their batches expect.
#pragma once

#include <c10/core/Allocator.h>

namespace ftm {

void register_host_allocator();

at::Allocator* host_allocator();
// Whether the address lies in a block that the allocator has given out.
bool is_pinned(const void* address);

} // namespace ftm
