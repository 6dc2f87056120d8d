// Values that are pending and yet nothing but elements that follow one another in memory, as a part
// that was copied out of a text: they are read there, and no program is launched for it.
#pragma once

#include "tensor/storage_variable.h"

namespace ftm {

// Makes such a value the variable's content, when the programs that it waits for have run; false
// for others. Throws what went wrong in one of these. The lock is the recorder's, which is free
// meanwhile.
bool copy_row_in_memory(Variable& variable, RecorderLock& lock);

} // namespace ftm
