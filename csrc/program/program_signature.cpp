#include "program/program_signature.h"

#include "ftm_machine.h"

#include <stdexcept>

namespace ftm {
namespace {

// Signed and unsigned bytes are one type to what moves them.
bool is_held_as(at::ScalarType dtype, int32_t held) {
  const auto known = [](int32_t type) {
    return type == FTM_U8 ? static_cast<int32_t>(FTM_I8) : type;
  };
  const auto& facts = dtype_facts(dtype);
  return facts.token != nullptr && known(facts.held) == known(held);
}

void check(
    const char* what, const std::vector<Declaration>& declared,
    const std::vector<ValueType>& wanted) {
  const auto refuse = [&](const std::string& reason) {
    throw std::runtime_error(
        std::string("the program is another one than the trace: ") + what + reason);
  };
  if (declared.size() != wanted.size()) {
    refuse(
        "s: " + std::to_string(declared.size()) + " instead of " + std::to_string(wanted.size()));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const size_t bytes = static_cast<size_t>(wanted[i].numel()) * c10::elementSize(wanted[i].dtype);
    if (declared[i].bytes != bytes) {
      refuse(
          " " + std::to_string(i) + " has " + std::to_string(declared[i].bytes) +
          " bytes instead of " + std::to_string(bytes));
    }
    if (!is_held_as(wanted[i].dtype, declared[i].dtype)) {
      refuse(" " + std::to_string(i) + " is not " + c10::toString(wanted[i].dtype));
    }
  }
}

std::vector<ValueType> scalar_types(const Trace& trace) {
  std::vector<ValueType> types;
  for (const auto& call : trace.calls) {
    for (const auto& slot : call.spec->slots) {
      if (slot.kind != OperandSlot::Kind::value) {
        types.push_back(
            {slot.kind == OperandSlot::Kind::scalar_float ? at::ScalarType::Double
                                                          : at::ScalarType::Long,
             {}});
      }
    }
  }
  return types;
}

} // namespace

void check_signature(const MachineProgram& program, const Trace& trace) {
  check("input", program.inputs(), trace.parameters);
  check("scalar", program.scalars(), scalar_types(trace));
  check("output", program.outputs(), trace.result_types);
}

} // namespace ftm
