// The recorder's lock.
#pragma once

#include <mutex>

namespace ftm {

// Guards the values of all variables and the pending graph. Code that may need the GIL must not run
// while it is held: meta kernels, the compiler, destructors of tensors.
std::mutex& recorder_mutex();
using RecorderLock = std::unique_lock<std::mutex>;

} // namespace ftm
