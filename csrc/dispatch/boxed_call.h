// Reads a call's arguments for recording: the key of its spec, its operands and scalars.
#pragma once

#include "ops/op_info.h"

#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <span>

namespace ftm {

struct BoxedCall {
  Key key; // everything on which the call's spec depends
  c10::SmallVector<const at::TensorImpl*, 8>
      operands; // of kind value, in the order of the spec's slots
  c10::SmallVector<uint64_t, 64> scalars; // bits of the other slots, in order
};

// Reads the arguments into an empty `call`. Returns false if one of them cannot be recorded;
// `replace_arguments` may replace it.
bool read_call(BoxedCall& call, const Op& op, c10::ArrayRef<c10::IValue> arguments);

// Returns the index of the device on which a call makes its results: its argument `device`, or the
// device of its tensors, or -1. Throws eager's error if its tensors are on several devices.
c10::DeviceIndex device_of_call(const Op& op, c10::ArrayRef<c10::IValue> arguments);

// Replaces arguments that cannot be recorded: CPU tensors that eager allows, lazily conjugated or
// negated tensors, integers that are compared in the default dtype, and TorchScript's lists.
// Returns false if nothing was replaced. Throws eager's error if the devices differ.
bool replace_arguments(const Op& op, std::span<c10::IValue> arguments);

} // namespace ftm
