// What Python may know and say about launches: how many there were, of which program the last one
// was, and that for a while there must be none.
#pragma once

#include "graph/structural_hash.h"

#include <cstdint>
#include <string>

namespace ftm {

// From now on a launch throws `why`; empty: launches are allowed again.
void forbid_launch(std::string why);
// What the last call said.
std::string forbidden_launch();

// Something is about to be launched: throws if that is forbidden. Under the recorder's lock.
void check_launch();
// It was a program of this hash. Under the recorder's lock.
void count_launch(const Hash128& program);

int64_t launches();
// The program of the last launch, as 32 hexadecimal digits; of this process only.
std::string last_program();

} // namespace ftm
