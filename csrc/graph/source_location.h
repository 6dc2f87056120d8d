// The line of the user's program that calls are recorded for, where all of them have theirs noted:
// for explanations of recompiles, and for errors that surface later. (A call that its program may
// refuse always has.)
#pragma once

#include "support/python_location.h"

namespace ftm {

void set_locations(bool all);
bool notes_all_locations();

// Where this thread's next calls come from.
void note_location(PythonLine line);
const PythonLine& noted_location();

} // namespace ftm
