// Sets which arguments of an aten call are operands.
#pragma once

#include "graph/call_spec.h"

namespace ftm {

// One element of an argument that has operands.
struct OperandMark {
  bool present = false; // false: None
  OperandSlot::Kind kind = OperandSlot::Kind::value;
};
// Sets spec.slots. `operands` has one entry for each schema argument: empty for attributes, else
// its elements (one for an argument that is no list, two for a complex number). `random` appends
// the operands seed and offset.
void set_operands(
    CallSpec& spec, const std::vector<std::vector<OperandMark>>& operands, bool random);

} // namespace ftm
