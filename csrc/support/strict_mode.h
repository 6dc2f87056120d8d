// FTM_STRICT: nothing computes but compiled programs. What would asks here first, and counts under
// a name of its own.
#pragma once

namespace ftm {

void set_strict(bool strict);
bool is_strict();

} // namespace ftm
