// What ATen asks of a device by name: generators, pinned memory, storages that grow.
#pragma once

namespace ftm {

void register_hooks();

} // namespace ftm
