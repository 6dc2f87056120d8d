// The variables that the capture of this thread has made (capture/capture.h). A captured program
// writes to no others: launches could not repeat the write.
#pragma once

#include <unordered_set>

namespace ftm {

struct VariableData;

inline thread_local std::unordered_set<const VariableData*> captured_variables;

} // namespace ftm
