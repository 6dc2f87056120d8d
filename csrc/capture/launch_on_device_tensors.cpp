#include "capture/launch.h"
#include "sync/cut_trace.h"
#include "execute/first_run_observer.h"
#include "execute/launcher.h"
#include "support/capture_mode.h"
#include "tensor/tensor_access.h"
#include "tensor/view_access.h"

#include <cstring>

namespace ftm {
namespace {

int64_t itemsize(at::ScalarType dtype) {
  return static_cast<int64_t>(c10::elementSize(dtype));
}

c10::DimVector row_major(c10::IntArrayRef sizes) {
  c10::DimVector strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = strides.size(); i-- > 0; stride *= sizes[i]) {
    strides[i] = stride;
  }
  return strides;
}

// Returns the value of the tensor's whole storage; an unwritten one becomes zeros. Called under the
// recorder's lock.
const Value& content_of(const at::Tensor& tensor) {
  const Region region = region_of(*tensor.unsafeGetTensorImpl());
  TORCH_CHECK_NOT_IMPLEMENTED(
      region.is_whole,
      "a compiled program takes no slice of a storage that begins or ends within an element: clone "
      "the tensor");
  whole_value(region.variable, tensor.scalar_type());
  return region.variable.value();
}

// The same if the value is computed.
const DataNode& data_of(const at::Tensor& tensor) {
  return static_cast<const DataNode&>(trace_node(content_of(tensor)));
}

} // namespace

void DeviceLaunch::compute() {
  const auto& trace = captured_.trace_;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].is_cpu()) {
      const auto extent = captured_.placeholders_[i].extent;
      copies_[static_cast<int32_t>(i)] = Buffer::from_cpu(inputs_[i].as_strided({extent}, {1}));
    }
  }
  auto job = std::make_shared<Job>();
  PythonLine line = python_line(this_thread());
  std::vector<Value> old; // freed after the unlock
  RecorderLock lock(recorder_mutex());
  while (auto* trace = pending_input_trace()) {
    lock.unlock();
    launch(*trace, CutReason::ended);
    lock.lock();
  }
  for (const auto& parameter : captured_.parameters_) {
    job->inputs.push_back(input_of(parameter));
  }
  job->scalars = scalars();
  job->origin = {std::move(line), {}, /*is_captured=*/true};
  job->old_values.resize(trace.results.size());
  for (size_t i = 0; i < trace.results.size(); ++i) {
    const auto& type = trace.result_types[i];
    results_.push_back(std::make_shared<Buffer>(type.dtype, type.sizes));
    job->old_values[i] = old_value(captured_.replaces_[i]);
  }
  job->outputs = results_;
  enqueue(job);
  for (size_t i = 0; i < results_.size(); ++i) {
    replace_input(i, old);
  }
  lock.unlock();
  old.clear();
  drop_inputs();
  copies_.clear();
  start_observed(job, captured_.program_);
  write_to_cpu();
}

PendingTrace* DeviceLaunch::pending_input_trace() {
  for (const auto& tensor : inputs_) {
    if (!tensor.is_cpu() && tensor.numel() != 0 && !trace_node(content_of(tensor)).is_data) {
      auto* trace = variable_of(*tensor.unsafeGetTensorImpl()).trace();
      TORCH_CHECK_NOT_IMPLEMENTED(trace != nullptr, kNoContent); // a capture computes it
      return trace;
    }
  }
  return nullptr;
}

// Returns the content of a placeholder's input, which a result replaces. A program that does not
// read all of the placeholder has no parameter with that content.
OldValue DeviceLaunch::old_value(int32_t placeholder) const {
  if (placeholder < 0 || inputs_[placeholder].is_cpu()) {
    return {};
  }
  const int32_t parameter = parameter_of(placeholder);
  if (parameter >= 0) {
    return {parameter, nullptr};
  }
  return {-1, data_of(inputs_[placeholder]).buffer()};
}

Input DeviceLaunch::input_of(const CapturedProgram::Parameter& parameter) {
  const int64_t skipped_bytes = parameter.offset * itemsize(parameter.type.dtype);
  if (parameter.placeholder < 0) {
    return {parameter.constant, skipped_bytes};
  }
  const auto& tensor = inputs_[parameter.placeholder];
  if (tensor.is_cpu()) {
    return {copies_[parameter.placeholder], skipped_bytes};
  }
  const int64_t offset = region_of(*tensor.unsafeGetTensorImpl()).offset;
  return {data_of(tensor).buffer(), offset * itemsize(tensor.scalar_type()) + skipped_bytes};
}

// Sets the content of an input's storage to the result that replaces it.
void DeviceLaunch::replace_input(size_t result, std::vector<Value>& old) {
  const int32_t target = captured_.replaces_[result];
  if (target < 0) {
    return;
  }
  const auto& tensor = inputs_[target];
  tensor.unsafeGetTensorImpl()->bump_version();
  if (tensor.is_cpu()) {
    return;
  }
  Variable& variable = variable_of(*tensor.unsafeGetTensorImpl());
  const auto& type = captured_.trace_.result_types[result];
  Value value = data_value(results_[result], type);
  old.push_back(variable.value());
  if (static_cast<size_t>(variable.nbytes()) == results_[result]->nbytes()) {
    variable.set_value(std::move(value));
  } else {
    variable.set_value(updated(
        whole_value(variable, tensor.scalar_type()), value, type.sizes, row_major(type.sizes),
        region_of(*tensor.unsafeGetTensorImpl()).offset));
  }
}

// Drops inputs that are not returned, so that the program can reuse their memory.
void DeviceLaunch::drop_inputs() {
  std::vector<bool> needed(inputs_.size());
  for (const auto& output : captured_.outputs_) {
    if (output.input >= 0) {
      needed[output.input] = true;
    }
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!needed[i] && !inputs_[i].is_cpu()) {
      inputs_[i].reset();
    }
  }
}

void DeviceLaunch::write_to_cpu() {
  for (size_t i = 0; i < results_.size(); ++i) {
    const int32_t target = captured_.replaces_[i];
    if (target >= 0 && inputs_[target].defined() && inputs_[target].is_cpu()) {
      wait_for(results_[i]);
      std::memcpy(inputs_[target].data_ptr(), results_[i]->data(), results_[i]->nbytes());
    }
  }
}

} // namespace ftm
