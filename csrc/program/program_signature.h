// Whether a loaded program is one of a trace: it reads and writes what it is given by what it
// declares itself.
#pragma once

#include "graph/trace.h"
#include "program/machine.h"

namespace ftm {

// Throws std::runtime_error unless the program takes the trace's parameters and scalars and makes
// its results, of the same types and sizes.
void check_signature(const MachineProgram& program, const Trace& trace);

} // namespace ftm
