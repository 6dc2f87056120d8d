// Checks that a loaded program belongs to a trace, by the arguments that it declares. Otherwise it
// would read and write memory that it was not given.
#pragma once

#include "graph/trace.h"
#include "program/machine.h"

namespace ftm {

// Throws std::runtime_error unless the program's inputs, scalars and outputs have the types and
// sizes of the trace's parameters, scalars and results.
void check_signature(const MachineProgram& program, const Trace& trace);

} // namespace ftm
