// The user's line of code for each recorded call, where noting is turned on for all calls. It is
// used to explain recompiles and in errors that are raised later. Calls whose program may raise an
// error (indices out of range) always have their line noted.
#pragma once

#include "support/python_location.h"

namespace ftm {

// Turns the noting of every call's line on or off, for the process.
void set_locations(bool all);
bool notes_all_locations();

// Set and return the line of this thread's next calls.
void note_location(PythonLine line);
const PythonLine& noted_location();

} // namespace ftm
