#include "reference/call_on_cpu.h"

#include "ops/op_traits.h"
#include "reference/random_ops.h"

#include <ATen/ScalarOps.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include <bit>

// Functions of OpenMP's runtime. Null if PyTorch uses another runtime.
extern "C" __attribute__((weak)) int omp_get_max_threads();
extern "C" __attribute__((weak)) void omp_set_num_threads(int threads);

namespace ftm {
namespace {

at::Scalar scalar_value(OperandSlot::Kind kind, uint64_t bits) {
  return kind == OperandSlot::Kind::scalar_float ? at::Scalar(std::bit_cast<double>(bits))
                                                 : at::Scalar(static_cast<int64_t>(bits));
}

bool takes_tensor(const c10::Argument& argument) {
  const auto& type = argument.real_type();
  const auto* optional = type->castRaw<c10::OptionalType>();
  return (optional != nullptr ? optional->getElementType() : type)->kind() ==
         c10::TypeKind::TensorType;
}

// Whether an argument has type Tensor[], not Tensor?[].
bool takes_tensors_only(const c10::Argument& argument) {
  const auto* list = argument.real_type()->castRaw<c10::ListType>();
  return list != nullptr && list->getElementType()->kind() == c10::TypeKind::TensorType;
}

// Adapts results of embedding_bag to the shapes that the meta kernel inferred. The CPU kernel omits
// the bag number of each of the `count` indices if its own backward does not need them, and the
// size of the last bag with `include_last_offset`.
void fit_bags(
    const CallSpec& spec, torch::jit::Stack& results, int64_t count, const at::Tensor& offsets) {
  if (results[1].toTensor().numel() == 0 && spec.results[1].type.numel() == count) {
    const at::Tensor begins = at::zeros({count + 1}, offsets.options());
    const at::Tensor bags =
        begins.index_add(0, offsets, at::ones_like(offsets)).cumsum(0).slice(0, 0, count).sub(1);
    results[1] = bags.to(offsets.scalar_type());
  }
  for (size_t i = 2; i < results.size(); ++i) {
    const auto& expected = spec.results[i].type.sizes;
    const at::Tensor actual = results[i].toTensor();
    if (actual.dim() == 1 && expected.size() == 1 && actual.size(0) < expected[0]) {
      results[i] = at::constant_pad_nd(actual, {0, expected[0] - actual.size(0)});
    }
  }
}

// Runs an op on one thread. OpenMP's number of threads is a property of the calling thread.
// at::set_num_threads would also set MKL's, for the whole process and for ever: after it, a batch
// of LU factorizations waits for threads that MKL does not get inside of a parallel region.
void call_single_threaded(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  struct OneThread {
    const int previous = omp_get_max_threads != nullptr ? omp_get_max_threads() : 0;
    OneThread() { set(1); }
    ~OneThread() { set(previous); }
    static void set(int threads) {
      if (omp_set_num_threads != nullptr) {
        omp_set_num_threads(threads);
      }
    }
  } one_thread;
  op.callBoxed(stack);
}

// Whether a kernel reads operands of any strides, and computes what it would from row-major ones.
// Recorded calls have no strides, and other kernels may depend on them.
bool takes_any_strides(const CallSpec& spec) {
  return spec.handle().hasTag(at::Tag::pointwise);
}

// A call's arguments with its operands filled in.
torch::jit::Stack filled_arguments(
    const CallSpec& spec, c10::ArrayRef<at::Tensor> operands, const uint64_t* scalars) {
  const auto& schema = spec.handle().schema().arguments();
  const bool keeps_strides = takes_any_strides(spec);
  torch::jit::Stack stack = spec.arguments;
  for (size_t i = 0; i < stack.size(); ++i) {
    if (stack[i].isDevice()) {
      stack[i] = c10::Device(c10::kCPU);
    } else if (stack[i].isGenerator()) {
      stack[i] = c10::IValue();
    } else if (spec.tensor_lists[i] >= 0) {
      stack[i] = c10::List<std::optional<at::Tensor>>();
      auto list = stack[i].toOptionalTensorList();
      list.resize(spec.tensor_lists[i]);
    }
  }
  size_t operand = 0;
  double real_part = 0; // of a complex number
  for (const auto& slot : spec.slots) {
    if (slot.argument < 0) {
      continue; // seed and offset
    }
    c10::IValue filled;
    if (slot.kind == OperandSlot::Kind::value) {
      const at::Tensor& tensor = operands[operand++];
      filled = keeps_strides ? tensor : tensor.contiguous();
    } else {
      auto scalar = scalar_value(slot.kind, *scalars++);
      if (slot.element == 0) {
        real_part = scalar.toDouble();
        continue;
      }
      if (slot.element == 1) {
        scalar = c10::complex<double>(real_part, scalar.toDouble());
      }
      filled = takes_tensor(schema[slot.argument])
                   ? c10::IValue(at::native::wrapped_scalar_tensor(scalar))
                   : c10::IValue(scalar);
    }
    if (slot.element >= 0 && slot.kind == OperandSlot::Kind::value) {
      stack[slot.argument].toOptionalTensorList().set(slot.element, filled.toTensor());
    } else {
      stack[slot.argument] = std::move(filled);
    }
  }
  for (size_t i = 0; i < stack.size(); ++i) {
    if (spec.tensor_lists[i] >= 0 && takes_tensors_only(schema[i])) {
      c10::List<at::Tensor> list;
      for (const std::optional<at::Tensor>& tensor : stack[i].toOptionalTensorVector()) {
        list.push_back(tensor.value_or(at::Tensor()));
      }
      stack[i] = std::move(list);
    }
  }
  return stack;
}

void append_results(
    const CallSpec& spec, const torch::jit::Stack& stack, std::vector<at::Tensor>& results) {
  const size_t first = results.size();
  for (const auto& result : stack) {
    if (result.isTensorList()) {
      for (const at::Tensor& tensor : result.toTensorVector()) {
        results.push_back(tensor);
      }
    } else {
      results.push_back(result.isNone() ? at::Tensor() : result.toTensor());
    }
  }
  for (size_t i = 0; i < spec.results.size(); ++i) {
    const auto& type = spec.results[i].type;
    auto& actual = results[first + i];
    if (type.dtype != at::ScalarType::Undefined &&
        !(actual.defined() && actual.scalar_type() == type.dtype && actual.sizes() == type.sizes)) {
      // Some CPU kernels return an undefined or an empty tensor for a result that is not used
      // (batch norm's saved statistics in evaluation).
      TORCH_CHECK(
          !actual.defined() || actual.numel() == 0 || type.numel() == 0, spec.name, " gave result ",
          i, " of another type than its meta kernel promised: ", type_text(type));
      actual = at::zeros(type.sizes, type.dtype);
    }
  }
}

void run_aten(
    const CallSpec& spec, c10::ArrayRef<at::Tensor> operands, const uint64_t* scalars,
    std::vector<at::Tensor>& results) {
  torch::jit::Stack stack = filled_arguments(spec, operands, scalars);
  const auto& traits = op_traits(spec.handle().operator_name().name);
  const at::Tensor indices = traits.counts_bags ? stack[1].toTensor() : at::Tensor();
  const at::Tensor offsets = traits.counts_bags ? stack[2].toTensor() : at::Tensor();
  if (draws_numbers(spec)) {
    run_random_reference(spec, stack, scalars[spec.scalars - 2], scalars[spec.scalars - 1]);
  } else if (!traits.indices.empty()) {
    // It may write to one index twice. On one thread the last value stays, as in compiled
    // programs. Ops that only read are slower than necessary.
    call_single_threaded(spec.handle(), stack);
  } else {
    spec.handle().callBoxed(stack);
  }
  if (traits.counts_bags) {
    fit_bags(spec, stack, indices.numel(), offsets);
  }
  append_results(spec, stack, results);
}

at::Tensor bits_of(const at::Tensor& tensor, at::ScalarType dtype) {
  auto bits = tensor.contiguous();
  if (bits.storage_offset() != 0) {
    bits = bits.clone(); // it may begin within an element of the other dtype
  }
  // Set the strides to 1: a dimension of size 1 may have any stride, which `view` rejects.
  return bits.as_strided({bits.numel()}, {1}, bits.storage_offset()).view(dtype);
}

} // namespace

ValuesOnlyGuard::ValuesOnlyGuard()
    : no_modes_(
          c10::autocast_dispatch_keyset |
          c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot})) {}

void run_on_cpu(
    const CallSpec& spec, c10::ArrayRef<at::Tensor> operands, const uint64_t* scalars,
    std::vector<at::Tensor>& results) {
  switch (spec.kind) {
    case CallSpec::Kind::aten: run_aten(spec, operands, scalars, results); break;
    case CallSpec::Kind::view: {
      const auto base = operands[0].contiguous(); // may be a view with an offset
      results.push_back(
          base.as_strided(spec.sizes, spec.strides, base.storage_offset() + spec.offset));
      break;
    }
    case CallSpec::Kind::update: {
      auto base = operands[0].clone(at::MemoryFormat::Contiguous);
      base.as_strided(spec.sizes, spec.strides, spec.offset).copy_(operands[1]);
      results.push_back(std::move(base));
      break;
    }
    case CallSpec::Kind::bitcast:
      results.push_back(bits_of(operands[0], spec.results[0].type.dtype));
      break;
  }
}

bool draws_numbers(const CallSpec& spec) {
  return !spec.slots.empty() && spec.slots.back().argument < 0;
}

} // namespace ftm
