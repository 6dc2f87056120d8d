// The classes `_Capture` and `_Captured` of `ftm_lazy._C`.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ftm {

void bind_capture(pybind11::module_& m);

} // namespace ftm
