// Operations on quantized tensors that run on the CPU, and are counted. Packing runs there too:
// packed weights are CPU objects; the device keeps a copy of each (quantized/linear_conv.cpp).
#include "quantized/quantized_tensor.h"
#include "dispatch/cpu_fallback.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace ftm {
namespace {

c10::IValue on_cpu(const c10::IValue& value) {
  if (value.isTensor() && value.toTensor().defined()) {
    return value.toTensor().cpu();
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      list.push_back(tensor.cpu());
    }
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor && tensor->defined() ? std::optional(tensor->cpu()) : std::nullopt);
    }
    return list;
  }
  return value.isDevice() ? c10::IValue(c10::Device(c10::kCPU)) : value;
}

// Runs the call on the CPU, and copies written arguments and new results back.
void run_with_cpu_tensors(const c10::OperatorHandle& handle, torch::jit::Stack& stack) {
  const auto& schema = handle.schema();
  const size_t base = stack.size() - schema.arguments().size();
  const std::vector<c10::IValue> arguments(stack.begin() + static_cast<int64_t>(base), stack.end());
  for (size_t i = base; i < stack.size(); ++i) {
    stack[i] = on_cpu(stack[i]);
  }
  const std::vector<c10::IValue> copies(stack.begin() + static_cast<int64_t>(base), stack.end());
  handle.callBoxed(stack);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite() || !arguments[i].isTensor() ||
        arguments[i].toTensor().is_cpu()) {
      continue;
    }
    at::Tensor written = arguments[i].toTensor();
    if (written.sizes() != copies[i].toTensor().sizes()) {
      written.resize_(copies[i].toTensor().sizes());
    }
    written.copy_(copies[i].toTensor());
  }
  for (size_t i = base; i < stack.size(); ++i) {
    if (!stack[i].isTensor() || !stack[i].toTensor().defined()) {
      continue;
    }
    const auto argument = std::find_if(copies.begin(), copies.end(), [&](const c10::IValue& value) {
      return value.isTensor() && value.toTensor().is_same(stack[i].toTensor());
    });
    stack[i] = argument != copies.end()
                   ? arguments[argument - copies.begin()]
                   : c10::IValue(stack[i].toTensor().to(c10::Device(c10::kPrivateUse1)));
  }
}

void fall_back(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto& name = handle.operator_name();
  count_fallback(
      op_named(name.overload_name.empty() ? name.name : name.name + "." + name.overload_name));
  run_with_cpu_tensors(handle, *stack);
}

void pack(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
  run_with_cpu_tensors(handle, *stack);
}

} // namespace

TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

TORCH_LIBRARY_IMPL(quantized, QuantizedPrivateUse1, library) {
  for (const char* name :
       {"linear_prepack", "conv1d_prepack", "conv2d_prepack", "conv3d_prepack", "conv_prepack",
        "conv_transpose1d_prepack", "conv_transpose2d_prepack", "conv_transpose3d_prepack"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&pack>());
  }
}

} // namespace ftm
