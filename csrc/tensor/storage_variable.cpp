#include "tensor/storage_variable.h"

#include "memory/memory_pool.h"
#include "support/capture_mode.h"
#include "support/device_index.h"
#include "tensor/captured_variables.h"
#include "tensor/fake_addresses.h"

#include <c10/core/Allocator.h>
#include <torch/csrc/lazy/backend/backend_interface.h>
#include <torch/csrc/lazy/core/lazy_graph_executor.h>

#include <atomic>

namespace ftm {
namespace {

std::atomic<bool> made_storage{false};

void add_to_trace(VariableData& state, PendingTrace& trace) {
  state.trace = &trace;
  state.previous = trace.last;
  (trace.last != nullptr ? trace.last->next : trace.first) = &state;
  trace.last = &state;
  ++trace.variables;
}

void remove_from_trace(VariableData& state) {
  auto& trace = *state.trace;
  (state.previous != nullptr ? state.previous->next : trace.first) = state.next;
  (state.next != nullptr ? state.next->previous : trace.last) = state.previous;
  state.previous = state.next = nullptr;
  state.trace = nullptr;
  --trace.variables;
}

// Makes `trace` the one that computes the variable's new value. If another thread's trace had
// written a pending value, that is superseded.
void move_to_trace(VariableData& state, PendingTrace& trace) {
  if (state.trace == &trace) {
    return;
  }
  if (state.trace != nullptr) {
    remove_from_trace(state);
  } else if (state.ir_value.node && trace_node(state.ir_value).is_data) {
    state.old_buffer = static_cast<const DataNode&>(trace_node(state.ir_value)).buffer();
  }
  add_to_trace(state, trace);
}

// Tells PyTorch's profiler (profile_memory=True), in terms of tensors, as on other devices.
void report_storage(void* address, int64_t bytes, c10::DeviceIndex device) {
  if (address != nullptr && c10::memoryProfilingEnabled()) {
    const auto total = memory_statistics(device);
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    c10::reportMemoryUsageToProfiler(
        address, bytes, static_cast<size_t>(total.allocated_bytes[kAll].current),
        static_cast<size_t>(total.reserved_bytes[kAll].current),
        c10::Device(c10::kPrivateUse1, device));
  }
}

void delete_variable(void* context) {
  c10::intrusive_ptr<Variable>::reclaim(static_cast<Variable*>(context));
}

} // namespace

Variable::Variable(int64_t nbytes, c10::DeviceIndex device)
    : VariableState{VariableData(nbytes, device)},
      LazyTensor(std::shared_ptr<Data>(std::shared_ptr<void>(), &state)) {
  if (capturing) {
    captured_variables.insert(&state);
  }
  address_ = nbytes != 0 ? allocate_fake_address(*this, nbytes) : nullptr; // as on other devices
  count_new_storage(device, nbytes);
  report_storage(address_, nbytes, device);
}

Variable::~Variable() {
  count_freed_storage(state.device, state.nbytes);
  report_storage(address_, -state.nbytes, state.device);
  if (address_ != nullptr) {
    release_fake_address(address_);
  }
  Value old;
  const RecorderLock lock(recorder_mutex());
  if (state.trace != nullptr) {
    remove_from_trace(state);
  }
  std::swap(old, state.ir_value); // declared before the lock, so it is freed after the unlock
}

void Variable::set_value(Value value, PendingTrace& own) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !capturing || captured_variables.contains(&state),
      "a captured program writes to a tensor that is none of its inputs, parameters or buffers: "
      "make it one");
  const bool overwrites_state = state.ir_value.node && (trace_node(state.ir_value).is_data ||
                                                        own.step.recorded.contains(next_call()));
  state.rewritten = state.rewritten || overwrites_state;
  const bool pending = value.node && !trace_node(value).is_data;
  if (pending && !capturing) { // captured calls belong to no pending trace
    move_to_trace(state, own);
  } else if (!pending && state.trace != nullptr) {
    remove_from_trace(state);
    state.old_buffer.reset();
  }
  state.ir_value = std::move(value);
}

void Variable::set_initial_value(Value fill) {
  state.initial_fill = static_cast<const CallNode&>(trace_node(fill)).sequence;
  set_value(std::move(fill));
}

void Variable::set_nbytes(int64_t nbytes) {
  count_freed_storage(state.device, state.nbytes);
  count_new_storage(state.device, nbytes);
  state.nbytes = nbytes;
}

void Variable::ApplyPendingGraph() {
  torch::lazy::LazyGraphExecutor::Get()->SyncLiveTensorsGraph(nullptr, {}, /*wait=*/true);
}

at::Tensor Variable::ToTensor(bool) {
  BufferPtr buffer;
  at::ScalarType dtype{};
  do { // repeats only if another thread records a newer value meanwhile
    if (RecorderLock lock(recorder_mutex()); state.trace != nullptr) {
      move_to_trace(state, pending_trace());
    }
    ApplyPendingGraph();
    const RecorderLock lock(recorder_mutex());
    TORCH_CHECK(value().node, "this ftm storage was never written");
    dtype = type_of(value()).dtype;
    if (trace_node(value()).is_data) {
      buffer = static_cast<const DataNode&>(trace_node(value())).buffer();
    }
  } while (!buffer);
  return torch::lazy::getBackend()->MakeTensorFromComputationData(buffer, dtype);
}

Value set_computed(VariableData& state, Value value) {
  remove_from_trace(state);
  std::swap(state.ir_value, value);
  state.old_buffer.reset();
  state.initial_fill.reset();
  return value;
}

c10::DataPtr make_data_ptr(int64_t nbytes, Variable** created) {
  const auto device = current_device();
  check_storage(device.index(), static_cast<size_t>(nbytes));
  auto variable = c10::make_intrusive<Variable>(nbytes, device.index());
  if (created != nullptr) {
    *created = variable.get();
  }
  made_storage.store(true, std::memory_order_relaxed);
  void* address = variable->address();
  return {address, variable.release(), &delete_variable, device};
}

bool device_was_used() {
  return made_storage.load(std::memory_order_relaxed);
}

StorageSlice storage_slice(const c10::StorageImpl& storage) {
  const auto& pointer = storage.data_ptr();
  if (pointer.get_deleter() == &delete_variable) {
    return {*static_cast<Variable*>(pointer.get_context()), 0};
  }
  TORCH_CHECK(
      pointer.device().is_privateuseone() && is_fake_address(pointer.get()),
      "this tensor's storage was not allocated by device ftm: make ftm tensors by .to(\"ftm\") or "
      "factory functions");
  const ByteLocation location = resolve_fake_address(pointer.get());
  TORCH_CHECK(
      location.variable != nullptr, "this tensor's storage is part of a storage that was freed");
  return {*location.variable, location.byte};
}

} // namespace ftm
