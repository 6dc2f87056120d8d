// A trace as the Python package sees it.
#pragma once

#include "graph/trace.h"

#include <pybind11/pybind11.h>

#include <string>

namespace ftm {

// Returns the object from which ftm_lazy/compile/trace_importer.py makes the compiler's data type.
// Needs the GIL, but runs no Python code.
pybind11::object recorded_trace(const Trace& trace);

// Returns the canonical text. Acquires the GIL.
std::string trace_text(const Trace& trace);

// Adds the object's class.
void bind_recorded_trace(pybind11::module_& m);

} // namespace ftm
