// The memory size of the device: the host's memory, or the part of it that this process may use.
#pragma once

#include <cstddef>
#include <string>

namespace ftm {

// Returns the limit in bytes: the smaller of the host's physical memory and the limits of the
// process's cgroups. Read once; later changes have no effect.
size_t device_memory_size();

// Formats a number of bytes, as in "1.50 GiB".
std::string size_text(size_t nbytes);

} // namespace ftm
