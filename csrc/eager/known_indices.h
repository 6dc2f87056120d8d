// Index tensors whose elements came from the CPU: an index outside is found where the call is recorded. Those that the
// device computes are looked at by the program that uses them.
#pragma once

#include "memory/buffer.h"
#include "ops/op.h"

namespace ftm {

// Marks a new buffer, which holds what was on the CPU, if it may hold indices.
void note_origin(Buffer& buffer);

// Whether the op of this functional name takes indices of elements.
bool takes_places(const std::string& name);
// For such an op: throws what the eager op throws for an index outside, if the indices are known.
void check_known_places(const Op& op, c10::ArrayRef<c10::IValue> arguments);

} // namespace ftm
