// Whether this thread captures: what it records then is a program to be (capture.h), and nobody's
// to run. No cut takes it up, no op falls back, and what is not in memory cannot be read.
#pragma once

namespace ftm {

inline thread_local bool capturing = false;

// Of the error for reading what is not in memory.
inline constexpr const char* kNoContent =
    "the value of a tensor was asked for while its program was being captured: what the program "
    "does depends on its "
    "data. Compute that part outside of the captured function, or say it with torch.where";

} // namespace ftm
