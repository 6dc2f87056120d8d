#include "layouts/sparse_fallback.h"

#include "ops/find_composite_kernel.h"
#include "dispatch/cpu_fallback.h"

#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <vector>

namespace ftm {
namespace {

c10::IValue to_cpu(const c10::IValue& argument) {
  if (argument.isTensor() && argument.toTensor().defined()) {
    const at::Tensor& tensor = argument.toTensor();
    // Some kernels save values for a gradient only if it is required.
    return tensor.cpu().set_requires_grad(tensor.requires_grad());
  }
  if (argument.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : argument.toTensorVector()) {
      list.push_back(tensor.cpu());
    }
    return list;
  }
  return argument.isDevice() ? c10::Device(c10::kCPU) : argument;
}

// Copies a written argument from the CPU back to the device. Sparse tensors may have another number
// of elements.
void write_back(const at::Tensor& self, const at::Tensor& copy) {
  if (self.layout() == at::kStrided) {
    self.resize_(copy.sizes()).copy_(copy);
  } else if (self.is_sparse()) {
    self.copy_(copy);
  } else {
    const at::Tensor moved = copy.to(self.device());
    const auto [compressed, plain] = at::sparse_csr::getCompressedPlainIndices(moved);
    at::sparse_csr::get_sparse_csr_impl(self)->set_member_tensors(
        compressed, plain, moved.values(), moved.sizes());
  }
}

} // namespace

void run_on_cpu(const Op& op, torch::jit::Stack& stack) {
  count_fallback(op);
  const size_t base = stack.size() - op.arguments.size();
  const std::vector<c10::IValue> arguments(stack.begin() + static_cast<int64_t>(base), stack.end());
  std::vector<at::Tensor> written;
  for (size_t i = 0; i < arguments.size(); ++i) {
    stack[base + i] = to_cpu(arguments[i]);
  }
  for (const int32_t argument : op.written) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        arguments[argument].isTensor(), op.called_name,
        " of sparse tensors writes to a list, which device ftm does not do: compute it on the "
        "CPU.");
    written.push_back(stack[base + argument].toTensor());
  }
  op.handle.callBoxed(stack);
  for (size_t i = 0; i < written.size(); ++i) {
    write_back(arguments[op.written[i]].toTensor(), written[i]);
  }
  for (size_t i = 0; i < op.returns.size(); ++i) {
    c10::IValue& result = stack[base + i];
    if (op.returns[i].argument >= 0) {
      result = arguments[op.returns[i].argument];
    } else if (result.isTensor() && result.toTensor().defined()) {
      result = result.toTensor().to(c10::Device(c10::kPrivateUse1));
    }
  }
}

namespace {

void fall_back(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  run_on_cpu(op_named(full_name(op.operator_name())), *stack);
}

// Kernels are unregistered when the Library object is destroyed, so it never is.
void register_fallbacks(c10::DispatchKey on_cpu, c10::DispatchKey on_device) {
  auto* library = new torch::Library(torch::Library::IMPL, "aten", on_device, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op =
        name.name.compare(0, 6, "aten::") == 0 ? dispatcher.findSchema(name) : std::nullopt;
    if (op && op->hasKernelForDispatchKey(on_cpu) && !op->hasKernelForDispatchKey(on_device)) {
      library->impl(
          full_name(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&fall_back>());
    }
  }
}

} // namespace

void register_sparse_fallbacks() {
  register_fallbacks(c10::DispatchKey::SparseCPU, c10::DispatchKey::SparsePrivateUse1);
  register_fallbacks(c10::DispatchKey::SparseCsrCPU, c10::DispatchKey::SparseCsrPrivateUse1);
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

} // namespace ftm
