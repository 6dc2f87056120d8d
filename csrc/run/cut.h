// Cuts: what is pending becomes a program and is launched.
#pragma once

#include "tensor/variable.h"

#include <string>
#include <vector>

namespace ftm {

// Takes all that is pending and live as one program and launches it. With `wait`, returns when
// everything launched has ended, and throws what went wrong. Not under the recorder's lock.
void sync(bool wait);

// The variable's content, computed: cuts if it is pending, waits, throws if its program failed.
// Null for a storage that was never written.
BufferPtr observe(Variable& variable);

// Text of the program that would compute these values; runs nothing.
std::string pending_text(const std::vector<Value>& values);

// Cuts when the pending graph has grown over the limit. Not under the recorder's lock.
void cut_if_long();
// 0: no limit.
void set_trace_limit(int64_t nodes);

} // namespace ftm
