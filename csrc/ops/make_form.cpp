#include "ops/make_form.h"

#include "graph/form_text.h"

namespace ftm {

bool is_complex_number(const c10::IValue& value) {
  return value.isComplexDouble() || (value.isTensor() && value.toTensor().defined() &&
                                     is_wrapped_number(value.toTensor()) && value.toTensor().is_complex());
}

FormPtr make_form(
    const Op& op, c10::ArrayRef<c10::IValue> arguments, std::vector<ResultType> results,
    std::vector<int32_t> list_lengths) {
  auto form = c10::make_intrusive<Form>();
  form->name = op.name;
  form->op = op.functional;
  form->concatenates = op.facts->concatenates;
  form->results = std::move(results);
  form->list_lengths = std::move(list_lengths);
  form->arguments = arguments.vec();
  form->tensor_lists.assign(arguments.size(), -1);
  std::vector<std::vector<OperandMark>> operands(arguments.size());
  const auto mark = [](const at::Tensor& tensor) -> OperandMark {
    if (!tensor.defined()) {
      return {};
    }
    if (!is_wrapped_number(tensor)) {
      return {true, Slot::Kind::value};
    }
    return {true, tensor.is_floating_point() ? Slot::Kind::scalar_float : Slot::Kind::scalar_int};
  };
  const auto mark_scalar = [](const c10::IValue& value) -> OperandMark {
    return {true, value.isDouble() ? Slot::Kind::scalar_float : Slot::Kind::scalar_int};
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& value = arguments[i];
    if (value.isTensor() && is_wrapped_number(value.toTensor()) && value.toTensor().scalar_type() == at::kBool) {
      form->arguments[i] = value.toTensor().item<bool>();
    } else if (is_complex_number(value)) {
      operands[i].assign(2, {true, Slot::Kind::scalar_float});
      form->arguments[i] = c10::IValue();
    } else if (value.isTensor()) {
      operands[i].push_back(mark(value.toTensor()));
      form->arguments[i] = c10::IValue();
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        operands[i].push_back(mark(tensor));
      }
      form->tensor_lists[i] = static_cast<int32_t>(operands[i].size());
      form->arguments[i] = c10::IValue();
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        operands[i].push_back(mark(tensor.value_or(at::Tensor())));
      }
      form->tensor_lists[i] = static_cast<int32_t>(operands[i].size());
      form->arguments[i] = c10::IValue();
    } else if (op.functional_kinds[i] == ArgumentKind::scalar && (value.isDouble() || value.isInt())) {
      operands[i].push_back(mark_scalar(value));
      form->arguments[i] = c10::IValue();
    }
  }
  render_call(*form, operands, op.random);
  form->finish();
  form->empty = true;
  for (const auto& result : form->results) {
    form->empty = form->empty && (result.type.dtype == at::ScalarType::Undefined || result.type.numel() == 0);
  }
  return form;
}

} // namespace ftm
