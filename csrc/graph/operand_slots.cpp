#include "graph/operand_slots.h"

namespace ftm {
namespace {

bool is_list(const c10::Argument& argument) {
  const auto& type = argument.type();
  const auto optional = type->cast<c10::OptionalType>();
  return (optional ? optional->getElementType() : type)->kind() == c10::TypeKind::ListType;
}

} // namespace

void set_operands(
    CallSpec& spec, const std::vector<std::vector<OperandMark>>& operands, bool random) {
  const auto& arguments = spec.handle().schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& marks = operands[i];
    const bool has_elements = is_list(arguments[i]) || marks.size() > 1;
    for (size_t j = 0; is_recorded(arguments[i]) && j < marks.size(); ++j) {
      if (marks[j].present) {
        spec.slots.push_back(
            {marks[j].kind, static_cast<int32_t>(i), has_elements ? static_cast<int32_t>(j) : -1});
      }
    }
  }
  if (random) {
    spec.slots.push_back({OperandSlot::Kind::scalar_int, -1, 0});
    spec.slots.push_back({OperandSlot::Kind::scalar_int, -1, 1});
  }
}

} // namespace ftm
