// A call on the interpreter's stack, read for recording: its key and its operands.
#pragma once

#include "ops/op_info.h"

#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <span>

namespace ftm {

struct Call {
  Key key; // all that the call's form depends on
  c10::SmallVector<const at::TensorImpl*, 8> operands; // slots of kind value
  c10::SmallVector<uint64_t, 64> scalars; // the other slots
};

// False: an argument is one that calls are not recorded with; `replace_arguments` has another for
// it.
bool read_call(Call& call, const Op& op, c10::ArrayRef<c10::IValue> arguments);

// Tensors that eager lets be mixed in from the CPU, or that are conjugated or negated lazily, are
// replaced, and so are TorchScript's lists. Throws where eager would say that devices differ. False
// if there was nothing to replace.
bool replace_arguments(const Op& op, std::span<c10::IValue> arguments);

} // namespace ftm
