// Profiles for Python.
#pragma once

#include <pybind11/pybind11.h>

namespace ftm {

void bind_profile(pybind11::module_& m);

} // namespace ftm
