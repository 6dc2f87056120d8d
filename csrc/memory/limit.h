// How much memory the device has: that of the host, or what this process may use of it.
#pragma once

#include <cstddef>
#include <string>

namespace ftm {

// Bytes: the host's physical memory, or the least limit of the control groups that the process was
// started in.
size_t memory_limit();

// "1.50 GiB".
std::string size_text(size_t nbytes);

} // namespace ftm
