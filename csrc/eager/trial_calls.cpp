#include "eager/trial_calls.h"

#include "eager/shape_functions.h"
#include "ops/make_form.h"
#include "process/python.h"
#include "random/cpu_stream.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/ones.h>

namespace ftm {
namespace {

c10::IValue replaced(const c10::IValue& value, Replacement replacement, c10::Device device) {
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    return tensor.defined() ? c10::IValue(replacement(tensor)) : value;
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      list.push_back(replacement(tensor));
    }
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor && tensor->defined() ? std::optional<at::Tensor>(replacement(*tensor)) : std::nullopt);
    }
    return list;
  }
  if (value.isDevice()) {
    return device;
  }
  if (value.isGenerator()) {
    return c10::IValue();
  }
  return value;
}

// Else the dispatcher would call the kernel of another device.
bool is_on_meta(const torch::jit::Stack& stack) {
  const auto is_meta = [](const at::Tensor& tensor) { return tensor.defined() && tensor.is_meta(); };
  return std::any_of(stack.begin(), stack.end(), [&](const c10::IValue& value) {
    if (value.isTensorList()) {
      const auto tensors = value.toTensorVector();
      return std::any_of(tensors.begin(), tensors.end(), is_meta);
    }
    return value.isTensor() ? is_meta(value.toTensor()) : value.isDevice() && value.toDevice().is_meta();
  });
}

// For ops that draw: zeros are no weights to draw by.
at::Tensor ones_on_cpu(const at::Tensor& tensor) {
  return cpu_like(tensor).fill_(1);
}

at::Tensor one_on_cpu(const at::Tensor& tensor) {
  return at::ones({1}, tensor.options().device(at::kCPU));
}

// Calls an op that draws, for its checks; the CPU's own stream of numbers stays as it is.
void draw_on_cpu(const Op& op, torch::jit::Stack stack) {
  at::AutoDispatchBelowADInplaceOrView guard;
  const CpuStream stream(op.handle, stack, {0, 0});
  op.handle.callBoxed(stack);
}

class Silence : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

} // namespace

at::Tensor meta_like(const at::Tensor& tensor) {
  if (is_wrapped_number(tensor)) {
    return tensor; // meta kernels take numbers from the CPU, as all kernels do
  }
  return at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
}

at::Tensor cpu_like(const at::Tensor& tensor) {
  if (is_wrapped_number(tensor)) {
    return tensor;
  }
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU)).zero_();
}

torch::jit::Stack with_tensors_replaced(
    c10::ArrayRef<c10::IValue> arguments, Replacement replacement, c10::Device device) {
  torch::jit::Stack stack;
  for (const auto& argument : arguments) {
    stack.push_back(replaced(argument, replacement, device));
  }
  return stack;
}

void throw_as_eager(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  // If eager takes the call, what it warns of is said again where the op's own tensors are resized.
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(
      op.written.empty() ? c10::WarningUtils::get_warning_handler() : &silence);
  if (op.random) {
    draw_on_cpu(op, with_tensors_replaced(arguments, ones_on_cpu, c10::kCPU));
    return;
  }
  auto stack = with_tensors_replaced(arguments, cpu_like, c10::kCPU);
  op.handle.callBoxed(stack);
}

void draw_one_on_cpu(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  draw_on_cpu(op, with_tensors_replaced(arguments, one_on_cpu, c10::kCPU));
}

bool call_on_meta(
    const Op& op, const c10::OperatorHandle& form, torch::jit::Stack& stack, c10::ArrayRef<c10::IValue> arguments) {
  at::AutoDispatchBelowADInplaceOrView guard;
  try {
    const c10::KernelFunction* function = is_on_meta(stack) ? shape_function(form) : nullptr;
    if (function != nullptr) {
      function->callBoxed(form, c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
    } else {
      form.callBoxed(stack);
    }
    return true;
  } catch (const c10::NotImplementedError&) {
    return false;
  } catch (const std::exception& error) {
    if (is_python_interrupt(error)) {
      throw;
    }
    if (is_python_not_implemented(error)) {
      return false;
    }
  }
  throw_as_eager(op, arguments);
  return false;
}

bool call_on_zeros(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, torch::jit::Stack& stack) {
  at::AutoDispatchBelowADInplaceOrView guard;
  try {
    stack = with_tensors_replaced(arguments, cpu_like, c10::kCPU);
    op.callBoxed(stack);
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

} // namespace ftm
