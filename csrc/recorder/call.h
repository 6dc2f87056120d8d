// A call on the interpreter's stack, read for recording: its key and its operands.
#pragma once

#include "ops/op.h"

#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

namespace ftm {

struct Call {
  Key key; // all that the call's form depends on
  c10::SmallVector<const at::TensorImpl*, 8> operands; // slots of kind value
  c10::SmallVector<uint64_t, 64> scalars; // the other slots
};

// Tensors that eager lets be mixed in from the CPU are replaced on the stack. Throws where eager would say
// that devices differ.
void read_call(Call& call, const Op& op, c10::ArrayRef<c10::IValue> arguments);

} // namespace ftm
