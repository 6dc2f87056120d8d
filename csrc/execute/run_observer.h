// Watching programs: what the first run of each was given, and what came out.
#pragma once

#include "execute/launcher.h"

namespace ftm {

// Like `start`; with an observer set, the first run of a program is waited for and shown to it.
void start_observed(const JobPtr& job, const ProgramPtr& program);

// Whether somebody wants to see them.
bool is_observed();
// Who wants to see them: fn(trace_text, inputs, scalars, outputs), a PyObject*, or null. Errors of
// the observer are reported as warnings.
void set_observer(void* callable);

} // namespace ftm
