// A call on the interpreter's stack, read for recording: its key and its operands.
#pragma once

#include "ops/op.h"

#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

namespace ftm {

using Key = c10::SmallVector<uint64_t, 64>;

// Words of a key start with what the next ones are, so that different calls never give the same words.
enum class Tag : uint64_t { none = 1, tensor, scalar, attribute, list, text };

inline uint64_t tagged(Tag tag, uint64_t payload) {
  return static_cast<uint64_t>(tag) << 56 | payload;
}

struct Call {
  Key key; // all that the call's form depends on
  c10::SmallVector<const at::TensorImpl*, 8> operands; // slots of kind value
  c10::SmallVector<uint64_t, 64> scalars; // the other slots
};

// Tensors that eager lets be mixed in from the CPU are replaced on the stack. Throws where eager would say
// that devices differ.
void read_call(Call& call, const Op& op, c10::ArrayRef<c10::IValue> arguments);

// The form that was kept for a key; null if there is none. `hash`: hash_words of the key.
FormPtr find_form(Op& op, const Key& key, uint64_t hash);
void keep_form(Op& op, const Key& key, uint64_t hash, const FormPtr& form);

} // namespace ftm
