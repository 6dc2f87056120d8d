// Text of an aten call's form: the trace's syntax for attributes.
#pragma once

#include "graph/call_spec.h"

namespace ftm {

struct OperandMark {
  bool present = false; // the operand is not None
  OperandSlot::Kind kind = OperandSlot::Kind::value;
};
// Renders attributes and slots of an aten call into form.pieces and form.slots, from form.op and
// form.arguments; `operands` says which arguments are operands: for each schema argument either
// empty, or the slots of its elements (a single one for non-list arguments, two for a complex
// number).
void render_call(
    CallSpec& spec, const std::vector<std::vector<OperandMark>>& operands, bool random);

} // namespace ftm
