#include "ops/make_call_spec.h"

#include "graph/operand_slots.h"

namespace ftm {

bool is_complex_number(const c10::IValue& value) {
  return value.isComplexDouble() ||
         (value.isTensor() && value.toTensor().defined() && is_wrapped_number(value.toTensor()) &&
          value.toTensor().is_complex());
}

CallSpecPtr make_call_spec(
    const Op& op, c10::ArrayRef<c10::IValue> arguments, std::vector<ResultType> results,
    std::vector<int32_t> list_lengths) {
  auto spec = c10::make_intrusive<CallSpec>();
  spec->name = op.name;
  spec->op = op.functional;
  spec->concatenates = op.traits->concatenates;
  spec->results = std::move(results);
  spec->list_lengths = std::move(list_lengths);
  spec->arguments = arguments.vec();
  spec->tensor_lists.assign(arguments.size(), -1);
  std::vector<std::vector<OperandMark>> operands(arguments.size());
  const auto mark = [](const at::Tensor& tensor) -> OperandMark {
    if (!tensor.defined()) {
      return {};
    }
    if (!is_wrapped_number(tensor)) {
      return {true, OperandSlot::Kind::value};
    }
    return {
        true, tensor.is_floating_point() ? OperandSlot::Kind::scalar_float
                                         : OperandSlot::Kind::scalar_int};
  };
  const auto mark_scalar = [](const c10::IValue& value) -> OperandMark {
    return {
        true, value.isDouble() ? OperandSlot::Kind::scalar_float : OperandSlot::Kind::scalar_int};
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& value = arguments[i];
    if (value.isTensor() && is_wrapped_number(value.toTensor()) &&
        value.toTensor().scalar_type() == at::kBool) {
      spec->arguments[i] = value.toTensor().item<bool>();
    } else if (is_complex_number(value)) {
      operands[i].assign(2, {true, OperandSlot::Kind::scalar_float});
      spec->arguments[i] = c10::IValue();
    } else if (value.isTensor()) {
      operands[i].push_back(mark(value.toTensor()));
      spec->arguments[i] = c10::IValue();
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        operands[i].push_back(mark(tensor));
      }
      spec->tensor_lists[i] = static_cast<int32_t>(operands[i].size());
      spec->arguments[i] = c10::IValue();
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        operands[i].push_back(mark(tensor.value_or(at::Tensor())));
      }
      spec->tensor_lists[i] = static_cast<int32_t>(operands[i].size());
      spec->arguments[i] = c10::IValue();
    } else if (
        op.functional_kinds[i] == ArgumentKind::scalar && (value.isDouble() || value.isInt())) {
      operands[i].push_back(mark_scalar(value));
      spec->arguments[i] = c10::IValue();
    }
  }
  set_operands(*spec, operands, op.random);
  spec->finish();
  spec->empty = true;
  for (const auto& result : spec->results) {
    spec->empty =
        spec->empty && (result.type.dtype == at::ScalarType::Undefined || result.type.numel() == 0);
  }
  return spec;
}

} // namespace ftm
