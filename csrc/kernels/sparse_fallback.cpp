#include "kernels/sparse_fallback.h"

#include "recorder/fallback.h"

#include <torch/library.h>

namespace ftm {

void run_on_cpu(const Op& op, torch::jit::Stack& stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      op.written.empty(), op.called_name,
      " of sparse tensors writes to an argument, which device ftm does not do: compute a new "
      "tensor, or compute it on the CPU.");
  count_fallback(op);
  const size_t base = stack.size() - op.arguments.size();
  for (size_t i = base; i < stack.size(); ++i) {
    if (stack[i].isTensor() && stack[i].toTensor().defined()) {
      const bool requires_grad = stack[i].toTensor().requires_grad();
      stack[i] = stack[i].toTensor().cpu().set_requires_grad(
          requires_grad); // what a kernel keeps for a gradient depends on it
    } else if (stack[i].isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : stack[i].toTensorVector()) {
        list.push_back(tensor.cpu());
      }
      stack[i] = std::move(list);
    } else if (stack[i].isDevice()) {
      stack[i] = c10::Device(c10::kCPU);
    }
  }
  op.handle.callBoxed(stack);
  for (size_t i = base; i < stack.size(); ++i) {
    if (stack[i].isTensor() && stack[i].toTensor().defined()) {
      stack[i] = stack[i].toTensor().to(c10::Device(c10::kPrivateUse1, 0));
    }
  }
}

namespace {

void fall_back(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto& name = op.operator_name();
  run_on_cpu(op_named(name.overload_name.empty() ? name.name : name.name + "." + name.overload_name), *stack);
}

} // namespace

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

} // namespace ftm
