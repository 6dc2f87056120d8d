// FTM_STRICT: an operation that would run on the CPU instead of in a compiled program is an error.
// Each CPU fallback checks the mode first, and has a counter.
#pragma once

namespace ftm {

// Turns strict mode on or off for the process.
void set_strict(bool strict);
// Whether strict mode is on.
bool is_strict();

} // namespace ftm
