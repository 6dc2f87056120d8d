#include "program/check_signature.h"

#include "ftm_machine.h"

#include <stdexcept>

namespace ftm {
namespace {

// The machine does not distinguish signed and unsigned bytes when it copies them.
bool has_element_type(at::ScalarType dtype, int32_t declared) {
  const auto merge_bytes = [](int32_t type) {
    return type == FTM_U8 ? static_cast<int32_t>(FTM_I8) : type;
  };
  const auto& info = dtype_info(dtype);
  return info.token != nullptr && merge_bytes(info.element_type) == merge_bytes(declared);
}

void check(
    const char* argument, const std::vector<Declaration>& declared,
    const std::vector<ValueType>& expected) {
  const auto mismatch = [&](const std::string& reason) {
    throw std::runtime_error(
        std::string("the program is another one than the trace: ") + argument + reason);
  };
  if (declared.size() != expected.size()) {
    mismatch(
        "s: " + std::to_string(declared.size()) + " instead of " + std::to_string(expected.size()));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const size_t bytes =
        static_cast<size_t>(expected[i].numel()) * c10::elementSize(expected[i].dtype);
    if (declared[i].bytes != bytes) {
      mismatch(
          " " + std::to_string(i) + " has " + std::to_string(declared[i].bytes) +
          " bytes instead of " + std::to_string(bytes));
    }
    if (!has_element_type(expected[i].dtype, declared[i].dtype)) {
      mismatch(" " + std::to_string(i) + " is not " + c10::toString(expected[i].dtype));
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
