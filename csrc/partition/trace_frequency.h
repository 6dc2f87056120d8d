// How often traces come that are cut into pieces: one that comes often gets a program of its own,
// which runs faster.
#pragma once

#include "graph/structural_hash.h"

namespace ftm {

// Counts one more launch of a trace that would be cut. Under the recorder's lock.
bool is_frequent(const Hash128& trace);

// Forgets what was counted. Under the recorder's lock.
void forget_frequencies();

} // namespace ftm
