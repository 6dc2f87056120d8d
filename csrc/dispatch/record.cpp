#include "dispatch/record.h"

#include "eager_checks/call_checks.h"
#include "eager_checks/call_warnings.h"
#include "eager_checks/host_indices.h"
#include "eager_checks/host_values.h"
#include "eager_checks/mask_counts.h"
#include "shape_inference/meta_calls.h"
#include "graph/source_location.h"
#include "graph/recorder_lock.h"
#include "graph/pending_trace.h"
#include "ops/call_on_values.h"
#include "support/counters.h"
#include "support/device_index.h"
#include "random/generator.h"
#include "dispatch/boxed_call.h"
#include "dispatch/cpu_fallback.h"
#include "dispatch/infer_call_spec.h"
#include "sync/cut_trace.h"
#include "sync/optimizer_step.h"
#include "tensor/tensor_access.h"
#include "tensor/view_access.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/Resize.h>
#include <ATen/record_function.h>
#include <c10/util/strides.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>

namespace ftm {
namespace {

bool share_elements(const Op& op, const at::Tensor& written, const at::Tensor& other) {
  if (!other.defined() || !other.is_privateuseone() || !other.is_alias_of(written)) {
    return false;
  }
  const auto status = at::get_overlap_status(written, other);
  return status == at::MemOverlapStatus::Partial ||
         (op.forbids_overlap && status == at::MemOverlapStatus::Full);
}

// Whether the call writes an element twice, or writes an element that it also reads at another
// index.
bool has_aliases(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  for (const int32_t index : op.written) {
    if (!arguments[index].isTensor()) {
      continue;
    }
    const auto& written = arguments[index].toTensor();
    if (at::has_internal_overlap(written) == at::MemOverlap::Yes) {
      return true;
    }
    for (size_t j = 0; j < arguments.size(); ++j) {
      const auto& other = arguments[j];
      if (static_cast<int32_t>(j) == index || static_cast<int32_t>(j) == op.number_argument) {
        continue;
      }
      if (other.isTensor() && share_elements(op, written, other.toTensor())) {
        return true;
      }
      if (op.forbids_overlap && (other.isTensorList() || other.isOptionalTensorList())) {
        const auto list = other.toListRef();
        const auto shares = [&](const c10::IValue& element) {
          return !element.isNone() && share_elements(op, written, element.toTensor());
        };
        if (std::any_of(list.begin(), list.end(), shares)) {
          return true;
        }
      }
    }
  }
  return false;
}

// Throws if the call would resize a tensor that it also reads. (CPU kernels resize it, and then
// read the wrong elements.)
void check_resized_operands(
    const Op& op, const CallSpec& spec, c10::ArrayRef<c10::IValue> arguments) {
  for (size_t i = 0; i < spec.written_sizes.size(); ++i) {
    const auto& tensor = arguments[op.written[i]].toTensor();
    for (size_t other = 0; other < op.arguments.size() && tensor.sizes() != spec.written_sizes[i];
         ++other) {
      TORCH_CHECK(
          op.arguments[other].out || !arguments[other].isTensor() ||
              !arguments[other].toTensor().is_same(tensor),
          "output with shape ", tensor.sizes(), " doesn't match the broadcast shape ",
          c10::IntArrayRef(spec.written_sizes[i]));
    }
  }
}

// Throws eager's errors about written memory that the call uses more than once.
void check_overlaps(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  if (has_aliases(op, arguments)) {
    check_aliases_as_eager(op, arguments);
  }
}

// Returns whether an output had another size.
bool resize_written(const Op& op, const CallSpec& spec, c10::ArrayRef<c10::IValue> arguments) {
  bool resized = false;
  for (size_t i = 0; i < spec.written_sizes.size(); ++i) {
    const auto& tensor = arguments[op.written[i]].toTensor();
    const c10::IntArrayRef sizes = spec.written_sizes[i];
    if (tensor.sizes() == sizes) {
      continue;
    }
    if (resizes_silently(op)) {
      tensor.resize_(sizes);
    } else {
      at::native::resize_output(tensor, sizes);
    }
    resized = true;
    if (!spec.written_strides[i].empty()) {
      tensor.unsafeGetTensorImpl()->set_sizes_and_strides(
          spec.written_sizes[i], spec.written_strides[i]);
    }
  }
  return resized;
}

std::atomic<int64_t>& ops_traced() {
  static auto& cell = counter("ops_traced");
  return cell;
}

// Notes whether the trace trains: a call is recorded by autograd, belongs to a backward pass, or
// writes a tensor that requires gradients (an optimizer's step).
void note_training(
    const Op& op, const BoxedCall& call, c10::ArrayRef<c10::IValue> arguments,
    std::atomic<bool>& trains) {
  if (trains.load(std::memory_order_relaxed)) {
    return;
  }
  const auto requires_grad = [](const at::TensorImpl* tensor) { return tensor->requires_grad(); };
  const auto is_written = [&](int32_t argument) {
    return arguments[argument].toTensor().requires_grad();
  };
  // In a backward pass, gradient mode is off except for create_graph.
  const bool found = at::GradMode::is_enabled()
                         ? std::any_of(call.operands.begin(), call.operands.end(), requires_grad)
                         : torch::autograd::get_current_node() != nullptr;
  if (found || std::any_of(op.written.begin(), op.written.end(), is_written)) {
    trains.store(true, std::memory_order_relaxed);
  }
}

// Returns the same elements with other sizes.
Value reshape(Value value, const ValueType& type) {
  if (type_of(value).sizes == type.sizes) {
    return value;
  }
  if (trace_node(value).is_data) {
    const auto& data = static_cast<const DataNode&>(trace_node(value));
    return data_value(data.buffer(), type, data.offset());
  }
  return strided_view(std::move(value), type.sizes, c10::contiguous_strides(type.sizes), 0);
}

// Adds the call to the trace and makes its result tensors. `line` is the user's line, or null.
// `results` receives new tensors, if the op writes to none.
void finish_call(
    Op& op, const CallSpecPtr& spec, BoxedCall& call, c10::ArrayRef<c10::IValue> arguments,
    const PythonLine& line, PendingTrace& trace, Results& results) {
  const RecorderLock lock = lock_to_read(call.operands, trace);
  ++op.recorded_calls;
  NodePtr node;
  Value copied;
  if (spec->copied >= 0) {
    note_training(op, call, arguments, trace.trains);
    copied = reshape(read(*call.operands[spec->copied]), spec->results[0].type);
  } else if (!spec->empty) {
    Operands values;
    for (const auto* operand : call.operands) {
      values.push_back(read(*operand));
    }
    note_training(op, call, arguments, trace.trains);
    node = add_call(op.kind, spec, std::move(values), call.scalars, trace).node;
    if (line) {
      static_cast<CallNode&>(*node).origin = origin_of_line(line);
    }
    for (size_t i = 0; i < op.written.size(); ++i) {
      if (spec->results[i].type.dtype != at::ScalarType::Undefined) {
        const auto& tensor = *arguments[op.written[i]].toTensor().unsafeGetTensorImpl();
        write(tensor, converted(Value(node, i), c10::typeMetaToScalarType(tensor.dtype())), trace);
      }
    }
  }
  if (!op.written.empty()) {
    return;
  }
  for (size_t i = 0; i < spec->results.size(); ++i) {
    const auto& result = spec->results[i];
    if (result.type.dtype == at::ScalarType::Undefined) {
      results.emplace_back();
      continue;
    }
    const bool has_value = node && result.type.numel() != 0;
    auto value = has_value ? Value(node, i) : copied;
    results.push_back(
        make_tensor(result.type, result.strides, result.contiguous, std::move(value), trace));
  }
}

// Replaces the arguments on the stack by the op's returns.
void push_returns(const Op& op, const CallSpec& spec, Results& results, torch::jit::Stack* stack) {
  c10::SmallVector<c10::IValue, 4> returned;
  if (op.written.empty()) {
    size_t next = 0;
    for (const int32_t length : spec.list_lengths) {
      if (length < 0) {
        returned.emplace_back(std::move(results[next++]));
        continue;
      }
      c10::List<at::Tensor> list;
      for (int32_t i = 0; i < length; ++i) {
        list.push_back(std::move(results[next++]));
      }
      returned.emplace_back(std::move(list));
    }
  } else {
    const size_t base = stack->size() - op.arguments.size();
    for (const auto& source : op.returns) {
      returned.push_back((*stack)[base + source.argument]);
    }
  }
  torch::jit::drop(*stack, op.arguments.size());
  for (auto& value : returned) {
    stack->push_back(std::move(value));
  }
}

// Notes where the calls that this thread records next come from. A forward call is noted under the
// autograd node that PyTorch has just made for it, so that its backward calls find it.
void note_call_origin(ThreadIdent owner) {
  auto origin = std::make_shared<CallOrigin>(current_origin(owner));
  // Also in the forward of a custom function, which runs without gradients; and in a backward pass
  // that has gradients itself, or that runs parts of the forward pass again.
  const bool has_node = at::GradMode::is_enabled() || !torch::autograd::get_current_node();
  if (has_node && at::sequence_number::peek() != 0) {
    note_forward(at::RecordFunction::currentThreadId(), at::sequence_number::peek() - 1, origin);
  }
  note_origin(std::move(origin));
}

} // namespace

PendingTrace& begin_recording() {
  auto& trace = pending_trace();
  cut_if_long(trace);
  if (notes_all_locations()) {
    note_call_origin(trace.owner);
  }
  return trace;
}

CallSpecPtr try_record(Op& op, c10::ArrayRef<c10::IValue> arguments, Results& results) {
  auto& trace = begin_recording();
  const DeviceScope scope(device_of_call(op, arguments));
  BoxedCall call;
  if (!read_call(call, op, arguments)) {
    return {};
  }
  if (op.has_domain && !call.scalars.empty()) {
    check_domain(op, arguments);
  }
  if (trace.step.ended.load(std::memory_order_relaxed)) {
    launch_deferred_step(call.operands);
  }
  const uint64_t hash = hash_words(call.key.data(), call.key.size());
  CallSpecPtr spec = op.find_spec(call.key, hash);
  if (!spec) {
    spec = infer_call_spec(op, arguments);
    op.insert_spec(call.key, hash, spec);
  }
  if (!op.written.empty()) {
    check_resized_operands(op, *spec, arguments);
    check_overlaps(op, arguments);
  }
  if (spec->fallback) {
    return {};
  }
  if (spec->fitted != at::ScalarType::Undefined) {
    check_numbers(op, arguments, spec->fitted);
  }
  if (op.index_rule != nullptr) {
    check_host_indices(op, arguments);
  }
  if (op.refuses_values) {
    check_host_values(op, arguments);
  }
  if (op.random) {
    const auto draw = next_random_draw(op.generator < 0 ? c10::IValue() : arguments[op.generator]);
    call.scalars.push_back(draw.seed);
    call.scalars.push_back(draw.offset);
  }
  if (!op.written.empty() && resize_written(op, *spec, arguments)) {
    check_overlaps(op, arguments); // eager resizes first, too
  }
  finish_call(
      op, spec, call, arguments,
      op.may_fail && !notes_all_locations() ? python_line(trace.owner) : nullptr, trace, results);
  ops_traced().fetch_add(1, std::memory_order_relaxed);
  return spec;
}

void record(Op& op, torch::jit::Stack* stack) {
  Results results;
  const auto arguments = torch::jit::last(*stack, op.arguments.size());
  const DeviceScope scope(device_of_call(op, arguments));
  if (const auto spec = try_record(op, arguments, results)) {
    push_returns(op, *spec, results, stack);
  } else if (
      replace_arguments(op, std::span(*stack).last(op.arguments.size())) ||
      (op.cpu_indices && replace_masks(op, *stack))) {
    record(op, stack);
  } else if (op.composite) {
    op.handle.callBoxedForDispatchKey(*op.composite, *stack);
  } else {
    run_fallback(op, stack);
  }
}

Op& OpReference::get() {
  Op* op = op_.load(std::memory_order_acquire);
  if (op == nullptr) {
    op = &op_named(name_);
    op_.store(op, std::memory_order_release);
  }
  return *op;
}

void RecordKernel::operator()(
    const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
  record(op_.get(), stack);
}

} // namespace ftm
