#include "capture/launch.h"

#include "compile/compile_threads.h"
#include "support/counters.h"
#include "support/gil.h"
#include "random/generator.h"
#include "execute/launcher.h"
#include "tensor/tensor_access.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

namespace ftm {
namespace {

bool same_strides(const at::Tensor& tensor, c10::IntArrayRef strides) {
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) > 1 && tensor.stride(i) != strides[i]) {
      return false;
    }
  }
  return true;
}

// Makes a view of a tensor's storage that shares its version counter, so that autograd detects
// writes to saved tensors.
at::Tensor view_of(
    const at::Tensor& storage_of, const CapturedProgram::Output& output, int64_t offset) {
  const auto key = storage_of.is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::PrivateUse1;
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage_of.storage()), c10::DispatchKeySet(key),
      c10::scalarTypeToTypeMeta(output.dtype));
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  impl->set_sizes_and_strides(output.sizes, output.strides);
  if (!impl->is_inference() && !storage_of.is_inference()) {
    impl->set_version_counter(storage_of.unsafeGetTensorImpl()->version_counter());
  }
  return tensor;
}

// Returns a one-dimensional tensor of a whole buffer.
at::Tensor tensor_of(const BufferPtr& buffer, bool on_cpu) {
  const auto dtype = buffer->shape().scalar_type();
  const c10::DimVector sizes{static_cast<int64_t>(buffer->nbytes() / c10::elementSize(dtype))};
  if (on_cpu) {
    wait_for(buffer);
    return Buffer::as_cpu(buffer, dtype, sizes, {1}, 0);
  }
  const RecorderLock lock(recorder_mutex());
  return make_tensor({dtype, sizes}, {}, /*contiguous=*/true, data_value(buffer, {dtype, sizes}));
}

} // namespace

Launch::Launch(const CapturedProgram& captured, std::vector<at::Tensor> inputs)
    : captured_(captured), inputs_(std::move(inputs)) {
  TORCH_CHECK_VALUE(
      inputs_.size() == captured_.placeholders_.size(), "the program takes ",
      captured_.placeholders_.size(), " tensors, not ", inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    auto& tensor = inputs_[i];
    const auto& expected = captured_.placeholders_[i];
    TORCH_CHECK_VALUE(
        tensor.is_cpu() || tensor.is_privateuseone(), "input ", i, " is on ", tensor.device(),
        ": a program takes tensors on ftm and on the CPU");
    TORCH_CHECK_VALUE(
        tensor.scalar_type() == expected.dtype && tensor.sizes() == expected.sizes, "input ", i,
        " is ", tensor.scalar_type(), " of shape ", tensor.sizes(),
        ", but the program was captured for ", expected.dtype, " of shape ",
        c10::IntArrayRef(expected.sizes));
    if (!same_strides(tensor, expected.strides) || tensor.is_conj() || tensor.is_neg()) {
      auto copy = at::empty_strided(expected.sizes, expected.strides, tensor.options());
      copy.copy_(tensor);
      if (captured_.writes(i)) {
        written_copies_.push_back({tensor, copy});
      }
      tensor = std::move(copy);
    }
  }
}

std::vector<at::Tensor> Launch::run() {
  if (!captured_.replaces_.empty()) {
    compute();
  }
  for (const auto& [original, copy] : written_copies_) {
    original.copy_(copy);
  }
  std::vector<at::Tensor> outputs;
  outputs.reserve(captured_.outputs_.size());
  for (const auto& output : captured_.outputs_) {
    outputs.push_back(make_output(output));
  }
  return outputs;
}

std::vector<uint64_t> Launch::scalars() const {
  auto scalars = captured_.scalars_;
  if (captured_.draws_made_ != 0) {
    at::Generator generator = default_generator();
    const std::lock_guard<std::mutex> guard(generator.mutex());
    const uint64_t offset = generator.get_offset();
    for (const auto& draw : captured_.draws_) {
      scalars[draw.seed] = generator.current_seed();
      scalars[draw.offset] = offset + draw.number;
    }
    generator.set_offset(offset + captured_.draws_made_);
  }
  return scalars;
}

int32_t Launch::parameter_of(int32_t placeholder) const {
  for (size_t p = 0; p < captured_.parameters_.size() && placeholder >= 0; ++p) {
    const auto& parameter = captured_.parameters_[p];
    if (parameter.placeholder == placeholder &&
        parameter.type.numel() == captured_.placeholders_[placeholder].extent) {
      return static_cast<int32_t>(p);
    }
  }
  return -1;
}

at::Tensor Launch::result_tensor(int32_t result, bool on_cpu) {
  return tensor_of(results_[result], on_cpu);
}

at::Tensor Launch::make_output(const CapturedProgram::Output& output) {
  const auto device = output.on_cpu ? c10::Device(c10::kCPU) : c10::Device(c10::kPrivateUse1);
  if (output.input >= 0) {
    const auto& input = inputs_[output.input];
    const auto tensor = view_of(input, output, input.storage_offset() + output.offset);
    return input.is_cpu() == output.on_cpu ? tensor : tensor.to(device);
  }
  if (output.constant) {
    return view_of(tensor_of(output.constant, output.on_cpu), output, output.offset).clone();
  }
  if (output.result < 0) {
    return at::empty_strided(
        output.sizes, output.strides, at::TensorOptions().dtype(output.dtype).device(device));
  }
  auto& whole = made_results_[{output.result, output.on_cpu}];
  const bool is_first = !whole.defined(); // later outputs are views of the first one's storage
  if (is_first) {
    whole = result_tensor(output.result, output.on_cpu);
  }
  const bool is_all = is_first && output.offset == 0 && whole.scalar_type() == output.dtype &&
                      whole.sizes() == c10::IntArrayRef(output.sizes) &&
                      whole.strides() == c10::IntArrayRef(output.strides);
  return is_all ? whole : view_of(whole, output, output.offset);
}

void CapturedProgram::build() {
  static auto& hits = counter("cache_hits_memory");
  if (program_ || replaces_.empty()) {
    hits.fetch_add(program_ ? 1 : 0);
    built_ = true;
    return;
  }
  CompileRequest request;
  request.hash = hash_;
  request.trace = trace_;
  program_ = wait_for_program(std::move(request));
  warn_of_compile_failures();
  built_ = true; // set last, so that a thread that launches meanwhile waits for the same program
}

std::vector<at::Tensor> CapturedProgram::launch(std::vector<at::Tensor> inputs, bool op_by_op) {
  // Outputs and random numbers are those of the inputs' device, which need not be the current one.
  c10::OptionalDeviceGuard on_device;
  const auto first = std::find_if(inputs.begin(), inputs.end(), [](const at::Tensor& tensor) {
    return tensor.is_privateuseone();
  });
  if (first != inputs.end()) {
    on_device.reset_device(first->device());
  }
  if (!op_by_op && RecordedLaunch::is_supported(*this, inputs)) {
    return RecordedLaunch(*this, std::move(inputs)).run();
  }
  if (!op_by_op && !built_) {
    const GilAcquire locked; // autograd's threads do not have it
    build();
  }
  bool on_cpu = true;
  for (const auto& tensor : inputs) {
    on_cpu = on_cpu && tensor.is_cpu();
  }
  for (const auto& output : outputs_) {
    on_cpu = on_cpu && output.on_cpu;
  }
  if (on_cpu) {
    if (!op_by_op && program_ && program_->machine() == nullptr) {
      count_op_by_op_run(*program_);
    }
    return CpuLaunch(*this, std::move(inputs), op_by_op ? nullptr : program_.get()).run();
  }
  TORCH_CHECK_VALUE(!op_by_op, "a program runs op by op on tensors of the CPU");
  return DeviceLaunch(*this, std::move(inputs)).run();
}

} // namespace ftm
