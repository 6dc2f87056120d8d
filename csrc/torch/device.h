// Device `ftm` as ATen sees it: name, guard, hooks, allocator.
#pragma once

namespace ftm {

// Renames PrivateUse1 and registers guard, hooks, allocator and the torch::lazy backend. Once, at import.
void register_device();
void register_lazy_backend();

} // namespace ftm
