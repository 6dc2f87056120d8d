// The Python class of the backend `ftm`.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ftm {

// Adds `_launch_collectives` to the module, and the class `GroupBackend` if PyTorch has
// torch.distributed.
void bind_distributed(pybind11::module& module);

} // namespace ftm
