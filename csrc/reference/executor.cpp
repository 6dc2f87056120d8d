#include "reference/executor.h"

#include "ops/op_traits.h"
#include "reference/random_ops.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
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

// Results of this thread's run that another thread completes.
struct Incomplete {
  at::Tensor result;
  std::function<void()> wait;
};
thread_local std::vector<Incomplete> incomplete;

void complete(const at::Tensor& tensor) {
  const auto found = std::find_if(incomplete.begin(), incomplete.end(), [&](const auto& entry) {
    return tensor.defined() && tensor.is_alias_of(entry.result);
  });
  if (found != incomplete.end()) {
    const auto wait = std::move(found->wait);
    incomplete.erase(found);
    wait();
  }
}

class ReferenceRun {
 public:
  ReferenceRun(
      const Trace& trace, std::vector<at::Tensor> inputs, const std::vector<uint64_t>& scalars,
      const Origin& origin)
      : trace_(trace), inputs_(std::move(inputs)), scalars_(scalars), origin_(origin) {}

  ReferenceResults run(void (*before_call)()) {
    incomplete.clear();
    find_last_uses();
    auto dead = deaths_.begin();
    ReferenceResults results;
    for (size_t i = 0; i < trace_.calls.size() && !results.failure; ++i) {
      const size_t computed = values_.size();
      before_call();
      try {
        run_call(trace_.calls[i]);
        for (; dead != deaths_.end() && dead->call == i; ++dead) {
          values_[dead->value].reset();
        }
      } catch (const std::exception& error) {
        results.failure = failure_from(error, where(i));
        values_.resize(computed);
      }
    }
    for (const auto result : trace_.results) {
      results.tensors.push_back(final_value(result, results.failure));
    }
    incomplete.clear();
    return results;
  }

 private:
  std::string where(size_t call) const {
    return "(" + trace_.calls[call].spec->name +
           " in a program that was launched earlier on device ftm" + origin_.launch_text() +
           origin_.record_text(call) + ")";
  }

  // A value, by the number of its call result, and the call after which it is freed.
  struct Death {
    size_t call;
    size_t value;
  };

  void find_last_uses() {
    constexpr size_t kNever = SIZE_MAX;
    for (size_t i = 0; i < trace_.calls.size(); ++i) {
      const auto& call = trace_.calls[i];
      for (size_t result = 0; result < call.spec->results.size(); ++result) {
        deaths_.push_back({i, deaths_.size()});
      }
      for (const auto operand : call.operands) {
        if (!operand.is_parameter()) {
          deaths_[operand.index()].call = i;
        }
      }
    }
    values_.reserve(deaths_.size());
    for (const auto result : trace_.results) {
      if (!result.is_parameter()) {
        deaths_[result.index()].call = kNever;
      }
    }
    std::sort(deaths_.begin(), deaths_.end(), [](const Death& a, const Death& b) {
      return a.call < b.call;
    });
  }

  const at::Tensor& value(ValueNumber number) const {
    if (number.is_parameter()) {
      return inputs_[number.index()];
    }
    complete(values_[number.index()]);
    return values_[number.index()];
  }

  // Returns a result of the trace, or an undefined tensor if it was not computed.
  at::Tensor final_value(ValueNumber number, FailurePtr& failure) const {
    if (!number.is_parameter() && number.index() >= static_cast<int64_t>(values_.size())) {
      return {};
    }
    try {
      return value(number);
    } catch (const std::exception& error) {
      failure = failure ? failure : failure_from(error, "");
      return {};
    }
  }

  void run_call(const Trace::Call& call) {
    const CallSpec& spec = *call.spec;
    switch (spec.kind) {
      case CallSpec::Kind::aten: run_aten(call); break;
      case CallSpec::Kind::view: {
        const auto base = value(call.operands[0]).contiguous(); // may be a view with an offset
        values_.push_back(
            base.as_strided(spec.sizes, spec.strides, base.storage_offset() + spec.offset));
        break;
      }
      case CallSpec::Kind::update: {
        auto base = value(call.operands[0]).clone(at::MemoryFormat::Contiguous);
        base.as_strided(spec.sizes, spec.strides, spec.offset).copy_(value(call.operands[1]));
        values_.push_back(std::move(base));
        break;
      }
      case CallSpec::Kind::bitcast: {
        auto bits = value(call.operands[0]).contiguous();
        if (bits.storage_offset() != 0) {
          bits = bits.clone(); // it may begin within an element of the other dtype
        }
        // Set the strides to 1: a dimension of size 1 may have any stride, which `view` rejects.
        values_.push_back(bits.as_strided({bits.numel()}, {1}, bits.storage_offset())
                              .view(spec.results[0].type.dtype));
        break;
      }
    }
  }

  void run_aten(const Trace::Call& call) {
    const CallSpec& spec = *call.spec;
    torch::jit::Stack stack = filled_arguments(call);
    const auto& traits = op_traits(spec.handle().operator_name().name);
    const at::Tensor indices = traits.counts_bags ? stack[1].toTensor() : at::Tensor();
    const at::Tensor offsets = traits.counts_bags ? stack[2].toTensor() : at::Tensor();
    if (draws_numbers(spec)) {
      const uint64_t seed = scalars_[next_scalar_++];
      const uint64_t offset = scalars_[next_scalar_++];
      run_random_reference(spec, stack, seed, offset);
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
    append_results(spec, stack);
  }

  torch::jit::Stack filled_arguments(const Trace::Call& call) {
    const CallSpec& spec = *call.spec;
    const auto& schema = spec.handle().schema().arguments();
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
        // Traces have no strides, so recorded values are row-major, and kernels rely on that.
        filled = value(call.operands[operand++]).contiguous();
      } else {
        auto scalar = scalar_value(slot.kind, scalars_[next_scalar_++]);
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
      if (spec.tensor_lists[i] >= 0 && schema[i].real_type()->str() == "Tensor[]") {
        c10::List<at::Tensor> list;
        for (const std::optional<at::Tensor>& tensor : stack[i].toOptionalTensorVector()) {
          list.push_back(tensor.value_or(at::Tensor()));
        }
        stack[i] = std::move(list);
      }
    }
    return stack;
  }

  void append_results(const CallSpec& spec, const torch::jit::Stack& stack) {
    const size_t first = values_.size();
    for (const auto& result : stack) {
      if (result.isTensorList()) {
        for (const at::Tensor& tensor : result.toTensorVector()) {
          values_.push_back(tensor);
        }
      } else {
        values_.push_back(result.isNone() ? at::Tensor() : result.toTensor());
      }
    }
    for (size_t i = 0; i < spec.results.size(); ++i) {
      const auto& type = spec.results[i].type;
      auto& actual = values_[first + i];
      if (type.dtype != at::ScalarType::Undefined &&
          !(actual.defined() && actual.scalar_type() == type.dtype &&
            actual.sizes() == type.sizes)) {
        // Some CPU kernels return an undefined or an empty tensor for a result that is not used
        // (batch norm's saved statistics in evaluation).
        TORCH_CHECK(
            !actual.defined() || actual.numel() == 0 || type.numel() == 0, spec.name,
            " gave result ", i,
            " of another type than its meta kernel promised: ", type_text(type));
        actual = at::zeros(type.sizes, type.dtype);
      }
    }
  }

  const Trace& trace_;
  std::vector<at::Tensor> inputs_;
  const std::vector<uint64_t>& scalars_;
  const Origin& origin_;
  std::vector<at::Tensor> values_;
  std::vector<Death> deaths_; // by call
  size_t next_scalar_ = 0;
};

} // namespace

ReferenceResults run_reference(
    const Trace& trace, std::vector<at::Tensor> inputs, const std::vector<uint64_t>& scalars,
    const Origin& origin, void (*before_call)()) {
  at::AutoDispatchBelowADInplaceOrView guard; // no autograd
  // Nor autocast, whose casts the trace already has. Nor Python dispatch modes: AOTAutograd traces
  // a graph's first call with one, through which a kernel's exception would not pass.
  const c10::impl::ExcludeDispatchKeyGuard no_modes(
      c10::autocast_dispatch_keyset |
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
  return ReferenceRun(trace, std::move(inputs), scalars, origin).run(before_call);
}

void complete_before_read(at::Tensor result, std::function<void()> wait) {
  incomplete.push_back({std::move(result), std::move(wait)});
}

bool draws_numbers(const CallSpec& spec) {
  return !spec.slots.empty() && spec.slots.back().argument < 0;
}

at::Tensor dense_on_cpu(const Input& input, const ValueType& type) {
  return at::from_blob(
      input.data(), type.sizes, [buffer = input.buffer](void*) {},
      at::TensorOptions().dtype(type.dtype));
}

void store_on_cpu(const at::Tensor& result, const ValueType& type, const Buffer& buffer) {
  if (type.numel() != 0) {
    at::from_blob(buffer.data(), type.sizes, at::TensorOptions().dtype(type.dtype)).copy_(result);
  }
}

} // namespace ftm
