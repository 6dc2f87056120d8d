// Whether this thread is capturing a program (capture/capture.h). While it captures, its calls are
// only recorded: no cut launches them, no op falls back to the CPU, and a value that is not in
// memory cannot be read.
#pragma once

namespace ftm {

inline thread_local bool capturing = false;

// Error message for reading a value that is not in memory during a capture.
inline constexpr const char* kNoContent =
    "the value of a tensor was asked for while its program was being captured: what the program "
    "does depends on its data. Compute that part outside of the captured function, or say it with "
    "torch.where";

} // namespace ftm
