// Python classes of `ftm_lazy._C` for captures: `_Capture`, `_Captured`, `_GraphCall`,
// `_AutogradCall`.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ftm {

// Adds the classes to the module. Needs the GIL.
void bind_capture(pybind11::module_& m);

} // namespace ftm
