// The allocator of storages: their memory comes with their values.
#pragma once

namespace ftm {

void register_allocator();

} // namespace ftm
