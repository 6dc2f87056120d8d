#include "capture/launch.h"
#include "memory/memory_pool.h"
#include "support/counters.h"
#include "support/gil.h"
#include "support/strict_mode.h"
#include "execute/launcher.h"
#include "execute/openmp_threads.h"
#include "reference/executor.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <cstring>

namespace ftm {
namespace {

// The program's scratch memory for the length of a run.
struct Arena {
  explicit Arena(size_t bytes)
      : block(bytes == 0 ? Block{} : allocate_block(bytes, /*device=*/0)) {}
  ~Arena() { free_block(block); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  const Block block;
};

at::Tensor dense_tensor(void* memory, const ValueType& type) {
  return at::from_blob(memory, type.sizes, at::TensorOptions().dtype(type.dtype));
}

} // namespace

void* CpuLaunch::address_of(const CapturedProgram::Parameter& parameter) const {
  char* memory = nullptr;
  if (parameter.placeholder < 0) {
    wait_for(parameter.constant);
    memory = static_cast<char*>(parameter.constant->data());
  } else {
    memory = static_cast<char*>(inputs_[parameter.placeholder].data_ptr());
  }
  return memory + parameter.offset * static_cast<int64_t>(c10::elementSize(parameter.type.dtype));
}

void CpuLaunch::compute() {
  static auto& executions = counter("executions");
  executions.fetch_add(1);
  const auto& trace = captured_.trace_;
  std::vector<void*> inputs, outputs;
  for (const auto& parameter : captured_.parameters_) {
    inputs.push_back(address_of(parameter));
  }
  const auto numbers = scalars();
  results_.resize(trace.results.size());
  for (size_t i = 0; i < results_.size(); ++i) {
    // Write an input's new content in place, if the program allows that.
    const int32_t target = captured_.replaces_[i];
    const int32_t parameter = parameter_of(target);
    if (machine_ != nullptr && parameter >= 0 && machine_->aliases()[i] == parameter) {
      outputs.push_back(inputs[parameter]);
    } else {
      results_[i] =
          std::make_shared<Buffer>(trace.result_types[i].dtype, trace.result_types[i].sizes);
      results_[i]->allocate();
      outputs.push_back(results_[i]->data());
    }
  }
  if (machine_ == nullptr) {
    compute_op_by_op(inputs, numbers);
  } else {
    // PyTorch's CPU kernels alternate with the machine.
    static const bool once [[maybe_unused]] = reserve_cpus_for_machine(machine_cores());
    const Arena arena(machine_->arena_bytes());
    GilRelease unlocked;
    try {
      machine_->run(inputs, outputs, numbers, arena.block.data, InterruptedBy::signals);
    } catch (const MachineFault& fault) {
      TORCH_CHECK(fault.inputs_intact && !is_strict(), fault.what());
      static auto& replays = counter("fault_replays");
      replays.fetch_add(1);
      compute_op_by_op(inputs, numbers); // eager's kernels raise the right error
    }
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    const int32_t target = captured_.replaces_[i];
    if (target >= 0 && results_[i]) {
      std::memcpy(inputs_[target].data_ptr(), results_[i]->data(), results_[i]->nbytes());
    }
    if (target >= 0) {
      inputs_[target].unsafeGetTensorImpl()->bump_version();
    }
    if (results_[i]) {
      results_[i]->set_ready();
    }
  }
}

void CpuLaunch::compute_op_by_op(
    const std::vector<void*>& inputs, const std::vector<uint64_t>& scalars) {
  const auto& trace = captured_.trace_;
  std::vector<at::Tensor> tensors;
  tensors.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    tensors.push_back(dense_tensor(inputs[i], trace.parameters[i]));
  }
  const auto computed = run_reference(
      trace, std::move(tensors), scalars, Origin{nullptr, {}, /*is_captured=*/true},
      &handle_signals);
  if (computed.failure) {
    throw_failure(*computed.failure);
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!results_[i]) {
      results_[i] =
          std::make_shared<Buffer>(trace.result_types[i].dtype, trace.result_types[i].sizes);
      results_[i]->allocate();
    }
    store_on_cpu(computed.tensors[i], trace.result_types[i], *results_[i]);
  }
}

} // namespace ftm
