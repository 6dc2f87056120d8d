// ATen's hooks of the device: generators, pinned memory, resizable storages.
#pragma once

namespace ftm {

// Registers the hooks. Call it once.
void register_hooks();

} // namespace ftm
