#include "graph/call_spec.h"

namespace ftm {

void CallSpec::finish() {
  for (const auto& slot : slots) {
    ++(slot.kind == OperandSlot::Kind::value ? values : scalars);
  }
  for (const auto& part : text_parts) {
    hash.add(part);
  }
  for (const auto& slot : slots) {
    hash.add(static_cast<uint64_t>(slot.kind));
  }
  for (const auto& result : results) {
    hash.add(type_text(result.type));
  }
  if (kind != Kind::view && kind != Kind::bitcast && !results.empty()) {
    Hash128 op_hash;
    op_hash.add(name);
    op_hash.add(static_cast<uint64_t>(results[0].type.dtype));
    signature = static_cast<uint32_t>(op_hash.low) | 1;
  }
}

} // namespace ftm
