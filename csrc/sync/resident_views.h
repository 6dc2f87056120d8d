// Pending values that are contiguous views of buffers (a slice of a text). Reading one copies it
// from memory; no program is launched.
#pragma once

#include "tensor/storage_variable.h"

namespace ftm {

// If the variable's pending value is such a view, waits for the program that computes the buffer,
// and sets the variable's content to a copy. Returns false for other values. Throws the program's
// error. `lock` is the recorder's, which is released meanwhile.
bool copy_resident_view(Variable& variable, RecorderLock& lock);

} // namespace ftm
