// Counts the launches of traces that are cut into several programs. A frequent trace gets its own
// program, which runs faster.
#pragma once

#include "graph/structural_hash.h"

namespace ftm {

// Counts a launch of a trace that would be cut, and returns whether it had more than 32. Called
// under the recorder's lock.
bool is_frequent(const Hash128& trace);

// Forgets all counts. Called under the recorder's lock.
void clear_frequencies();

} // namespace ftm
