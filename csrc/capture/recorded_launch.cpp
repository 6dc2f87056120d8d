// Launch of a captured program by recording its calls.
#include "capture/launch.h"
#include "graph/pending_trace.h"
#include "support/counters.h"
#include "dispatch/record.h"
#include "sync/cut_trace.h"
#include "sync/optimizer_step.h"
#include "tensor/tensor_access.h"

namespace ftm {
namespace {

int64_t size_of(at::ScalarType dtype) {
  return static_cast<int64_t>(c10::elementSize(dtype));
}

// Returns the number of bytes before element `offset` of the program's `type`, counted from the
// begin of the input.
int64_t bytes_before(const at::Tensor& input, const ValueType& type, int64_t offset) {
  return input.storage_offset() * size_of(input.scalar_type()) + offset * size_of(type.dtype);
}

// Returns the part of an input that the program reads, as a row-major tensor.
at::Tensor parameter_view(const at::Tensor& input, const ValueType& type, int64_t offset) {
  if (offset == 0 && input.scalar_type() == type.dtype && input.sizes() == type.sizes &&
      input.is_contiguous()) {
    return input;
  }
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(input.storage()), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(type.dtype));
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_offset(bytes_before(input, type, offset) / size_of(type.dtype));
  impl->set_sizes_contiguous(type.sizes);
  return tensor;
}

} // namespace

bool RecordedLaunch::is_supported(
    const CapturedProgram& captured, const std::vector<at::Tensor>& inputs) {
  const auto is_aligned = [&](int32_t input, const ValueType& type, int64_t offset) {
    return input < 0 || bytes_before(inputs[input], type, offset) % size_of(type.dtype) == 0;
  };
  if (inputs.size() != captured.placeholders_.size()) {
    return false; // the next candidate raises the error
  }
  for (const auto& tensor : inputs) {
    if (!tensor.is_privateuseone()) {
      return false;
    }
  }
  for (const auto& output : captured.outputs_) {
    if (output.on_cpu) {
      return false;
    }
  }
  for (const auto& parameter : captured.parameters_) {
    if (!is_aligned(parameter.placeholder, parameter.type, parameter.offset)) {
      return false;
    }
  }
  for (size_t i = 0; i < captured.replaces_.size(); ++i) {
    if (!is_aligned(captured.replaces_[i], captured.trace_.result_types[i], 0)) {
      return false;
    }
  }
  return true;
}

void RecordedLaunch::compute() {
  static auto& ops_traced = counter("ops_traced");
  auto& trace = begin_recording();
  c10::SmallVector<const at::TensorImpl*, 16> operands;
  for (const auto& tensor : inputs_) {
    operands.push_back(tensor.unsafeGetTensorImpl());
  }
  if (trace.step.ended.load(std::memory_order_relaxed)) {
    launch_deferred_step(operands);
  }
  const auto drawn = scalars();
  const PythonLine line = captured_.may_fail_ ? python_line(trace.owner) : nullptr;
  const RecorderLock lock = lock_to_read(operands, trace);
  const auto values = record(drawn, line);
  trace.trains = true; // a captured graph has fixed sizes
  ops_traced.fetch_add(
      static_cast<int64_t>(captured_.trace_.calls.size()), std::memory_order_relaxed);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto& type = captured_.trace_.result_types[i];
    const int32_t target = captured_.replaces_[i];
    if (target >= 0) {
      inputs_[target].unsafeGetTensorImpl()->bump_version();
      write(*parameter_view(inputs_[target], type, 0).unsafeGetTensorImpl(), values[i]);
    }
    result_tensors_.push_back(
        target < 0 ? make_tensor(type, {}, /*contiguous=*/true, values[i]) : at::Tensor());
  }
}

std::vector<Value> RecordedLaunch::record(
    c10::ArrayRef<uint64_t> scalars, const PythonLine& line) const {
  const auto& trace = captured_.trace_;
  std::vector<Value> parameters;
  for (const auto& parameter : captured_.parameters_) {
    if (parameter.placeholder < 0) {
      parameters.push_back(data_value(parameter.constant, parameter.type, parameter.offset));
    } else {
      parameters.push_back(
          read(*parameter_view(inputs_[parameter.placeholder], parameter.type, parameter.offset)
                    .unsafeGetTensorImpl()));
    }
  }
  std::vector<Value> results; // of all calls
  const auto value_of = [&](ValueNumber number) {
    return number.is_parameter() ? parameters[number.index()] : results[number.index()];
  };
  for (size_t i = 0; i < trace.calls.size(); ++i) {
    const auto& call = trace.calls[i];
    Operands values;
    for (const auto operand : call.operands) {
      values.push_back(value_of(operand));
    }
    const size_t count = call.spec->scalars;
    const auto node =
        add_call(captured_.calls_[i].kind, call.spec, std::move(values), scalars.slice(0, count))
            .node;
    scalars = scalars.slice(count);
    if (captured_.calls_[i].may_fail) {
      static_cast<CallNode&>(*node).origin = origin_of_line(line);
    }
    for (size_t result = 0; result < call.spec->results.size(); ++result) {
      results.emplace_back(node, result);
    }
  }
  std::vector<Value> values;
  values.reserve(trace.results.size());
  for (const auto result : trace.results) {
    values.push_back(value_of(result));
  }
  return values;
}

at::Tensor RecordedLaunch::result_tensor(int32_t result, bool) {
  return result_tensors_[result];
}

} // namespace ftm
