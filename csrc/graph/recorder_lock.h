// The lock of the recorder.
#pragma once

#include <mutex>

namespace ftm {

// Guards all variables' values and the graph behind them. Nothing that may need the GIL (meta
// kernels, the compiler, destructors of tensors) may run while it is held.
std::mutex& recorder_mutex();
using RecorderLock = std::unique_lock<std::mutex>;

} // namespace ftm
