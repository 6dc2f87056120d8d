#include "shape_inference/meta_calls.h"

#include "shape_inference/shape_functions.h"
#include "ops/make_call_spec.h"
#include "support/gil.h"
#include "random/cpu_generator.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <unordered_map>

namespace ftm {
namespace {

c10::IValue replace(const c10::IValue& value, const Replacement& replacement, c10::Device device) {
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
      list.push_back(
          tensor && tensor->defined() ? std::optional<at::Tensor>(replacement(*tensor))
                                      : std::nullopt);
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

// Whether an argument is on the meta device. Otherwise the dispatcher would call another device's
// kernel.
bool is_on_meta(const torch::jit::Stack& stack) {
  const auto is_meta = [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.is_meta();
  };
  return std::any_of(stack.begin(), stack.end(), [&](const c10::IValue& value) {
    if (value.isTensorList()) {
      const auto tensors = value.toTensorVector();
      return std::any_of(tensors.begin(), tensors.end(), is_meta);
    }
    return value.isTensor() ? is_meta(value.toTensor())
                            : value.isDevice() && value.toDevice().is_meta();
  });
}

at::Tensor ones_on_cpu(const at::Tensor& tensor) {
  return is_wrapped_number(tensor) ? tensor : cpu_like(tensor).fill_(1);
}

// What replaces the tensors of a call that is tried on the CPU. Zeros are no weights of an op that
// draws, and no divisors.
auto stand_in(const Op& op) {
  const auto refuses = op.traits->refuses;
  const bool divides =
      refuses == Refusal::zero_divisors || refuses == Refusal::zero_divisors_if_rounded;
  return op.random || divides ? ones_on_cpu : cpu_like;
}

at::Tensor one_on_cpu(const at::Tensor& tensor) {
  return at::ones({1}, tensor.options().device(at::kCPU));
}

// Calls an op that draws for its checks, without changing the state of the CPU's generator.
void draw_on_cpu(const Op& op, torch::jit::Stack stack) {
  at::AutoDispatchBelowADInplaceOrView guard;
  const CpuStream stream(op.handle, stack, {0, 0});
  op.handle.callBoxed(stack);
}

class SilencedWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

} // namespace

at::Tensor meta_like(const at::Tensor& tensor) {
  if (is_wrapped_number(tensor)) {
    return tensor; // meta kernels accept numbers as CPU tensors, as all kernels do
  }
  return at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
}

at::Tensor cpu_like(const at::Tensor& tensor) {
  if (is_wrapped_number(tensor)) {
    return tensor;
  }
  const auto options = tensor.options().device(at::kCPU);
  const size_t extent =
      at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), /*itemsize_bytes=*/1);
  if (extent < static_cast<size_t>(tensor.numel())) {
    // Some kernels write to an expanded tensor as if it were row-major: allocate all elements.
    return at::zeros({tensor.numel()}, options).as_strided(tensor.sizes(), tensor.strides());
  }
  return at::empty_strided(tensor.sizes(), tensor.strides(), options).zero_();
}

torch::jit::Stack with_tensors_replaced(
    c10::ArrayRef<c10::IValue> arguments, const Replacement& replacement, c10::Device device) {
  torch::jit::Stack stack;
  for (const auto& argument : arguments) {
    stack.push_back(replace(argument, replacement, device));
  }
  return stack;
}

void throw_as_eager(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  // If eager accepts the call, its warnings are repeated where the op's own tensors are resized.
  SilencedWarnings silence;
  const c10::WarningUtils::WarningHandlerGuard guard(
      op.written.empty() ? c10::WarningUtils::get_warning_handler() : &silence);
  if (op.random) {
    draw_on_cpu(op, with_tensors_replaced(arguments, stand_in(op), c10::kCPU));
    return;
  }
  auto stack = with_tensors_replaced(arguments, stand_in(op), c10::kCPU);
  op.handle.callBoxed(stack);
}

void throw_if_dtypes_unsupported(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  SilencedWarnings silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  try {
    throw_as_eager(op, arguments);
  } catch (const c10::Error& error) {
    // The message of AT_DISPATCH: "clamp_cpu" not implemented for 'Bool'
    if (error.msg().find("\" not implemented for '") != std::string::npos) {
      throw;
    }
  }
}

void draw_one_on_cpu(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  draw_on_cpu(op, with_tensors_replaced(arguments, one_on_cpu, c10::kCPU));
}

bool call_on_meta(
    const Op& op, const c10::OperatorHandle& callee, torch::jit::Stack& stack,
    c10::ArrayRef<c10::IValue> arguments) {
  at::AutoDispatchBelowADInplaceOrView guard;
  try {
    const c10::KernelFunction* function = is_on_meta(stack) ? shape_function(callee) : nullptr;
    if (function != nullptr) {
      function->callBoxed(callee, c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
    } else {
      callee.callBoxed(stack);
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

bool call_on_zeros(
    const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, torch::jit::Stack& stack) {
  at::AutoDispatchBelowADInplaceOrView guard;
  try {
    stack = with_tensors_replaced(arguments, cpu_like, c10::kCPU);
    op.callBoxed(stack);
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

namespace {

// Makes CPU copies of tensors, filled with one number, that share storages in the same way as the
// tensors.
class AliasedCopies {
 public:
  explicit AliasedCopies(double fill) : fill_(fill) {}

  // Makes the copied storage large enough for the tensor in row-major order, as some kernels write
  // to it regardless of its strides.
  void reserve(const at::Tensor& tensor) {
    if (tensor.is_privateuseone()) {
      const auto& storage = tensor.storage();
      auto& nbytes = nbytes_[storage.unsafeGetStorageImpl()];
      const auto end =
          static_cast<size_t>(tensor.storage_offset() + tensor.numel()) * tensor.itemsize();
      nbytes = std::max({nbytes, storage.nbytes(), end});
    }
  }

  at::Tensor of(const at::Tensor& tensor) {
    if (!tensor.is_privateuseone()) {
      return tensor;
    }
    auto& copy = tensors_[tensor.unsafeGetTensorImpl()];
    if (!copy.defined()) {
      copy = at::empty({0}, tensor.options().device(at::kCPU));
      copy.set_(storage_of(tensor), tensor.storage_offset(), tensor.sizes(), tensor.strides());
      copy.fill_(fill_);
    }
    return copy;
  }

 private:
  at::Storage storage_of(const at::Tensor& tensor) {
    const auto* storage = tensor.storage().unsafeGetStorageImpl();
    auto& copy = storages_[storage];
    if (!copy.defined()) {
      copy = at::zeros(
          {static_cast<int64_t>(nbytes_.at(storage))},
          at::TensorOptions().dtype(at::kByte).device(at::kCPU));
    }
    return copy.storage();
  }

  double fill_;
  std::unordered_map<const c10::StorageImpl*, size_t> nbytes_;
  std::unordered_map<const c10::StorageImpl*, at::Tensor> storages_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> tensors_;
};

} // namespace

void check_aliases_as_eager(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  SilencedWarnings silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  AliasedCopies copies(op.random ? 1 : 0);
  with_tensors_replaced(
      arguments,
      [&](const at::Tensor& tensor) {
        copies.reserve(tensor);
        return tensor;
      },
      c10::kCPU);
  auto stack = with_tensors_replaced(
      arguments, [&](const at::Tensor& tensor) { return copies.of(tensor); }, c10::kCPU);
  try {
    if (op.random) {
      draw_on_cpu(op, std::move(stack));
    } else {
      op.handle.callBoxed(stack);
    }
    // NOLINTNEXTLINE(bugprone-empty-catch)
  } catch (const c10::LinAlgError&) { // the error is about elements, which are placeholders here
  }
}

std::optional<torch::jit::Stack> try_on_cpu(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  SilencedWarnings silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  try {
    auto stack = with_tensors_replaced(arguments, stand_in(op), c10::kCPU);
    for (const int32_t written : op.written) {
      if (op.arguments[written].out) {
        const auto dtype = arguments[written].toTensor().scalar_type();
        stack[written] = at::empty({0}, at::TensorOptions().dtype(dtype).device(at::kCPU));
      }
    }
    if (op.random) {
      const CpuStream stream(op.handle, stack, {0, 0});
      op.handle.callBoxed(stack);
    } else {
      op.handle.callBoxed(stack);
    }
    return stack;
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

} // namespace ftm
