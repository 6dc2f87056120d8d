// Python's control of launches: their number, the program of the last one, and whether launches are
// forbidden. Thread-safe.
#pragma once

#include "graph/structural_hash.h"

#include <cstdint>
#include <string>

namespace ftm {

// Makes launches throw an error with this message, for the process. An empty message allows them
// again.
void forbid_launch(std::string why);
// Returns the message that the last call set.
std::string forbidden_launch();

// Throws if launches are forbidden. Called under the recorder's lock, before a launch.
void check_launch();
// Counts a launch of the program with this hash. Called under the recorder's lock.
void count_launch(const Hash128& program);

// Returns the number of launches in this process.
int64_t launches();
// Returns the hash of the last launched program as 32 hexadecimal digits. It is meaningful in this
// process only.
std::string last_program();

} // namespace ftm
