// Observes programs: the inputs and outputs of the first run of each.
#pragma once

#include "execute/launcher.h"

namespace ftm {

// Starts a job. If an observer is set and this is the program's first run, also waits for it and
// passes its inputs and outputs to the observer.
void start_observed(const JobPtr& job, const ProgramPtr& program);

// Whether an observer is set.
bool is_observed();
// Sets the observer fn(trace, inputs, scalars, outputs), a PyObject*, or null. Needs the GIL.
// Its exceptions are reported as warnings.
void set_observer(void* callable);

} // namespace ftm
