// Device `ftm` as PyTorch sees it.
#pragma once

namespace ftm {

// Renames PrivateUse1 and registers guard, hooks, allocator and what torch::lazy needs. Once, at
// import.
void register_device();

} // namespace ftm
