#include "tensor/storage_variable.h"

#include "memory/memory_pool.h"
#include "support/capture_mode.h"
#include "tensor/fake_addresses.h"

#include <torch/csrc/lazy/backend/backend_interface.h>
#include <torch/csrc/lazy/core/lazy_graph_executor.h>

#include <atomic>

namespace ftm {
namespace {

std::atomic<bool> made_storage{false};

void link(VariableData& state, PendingTrace& trace) {
  state.trace = &trace;
  state.previous = trace.last;
  (trace.last != nullptr ? trace.last->next : trace.first) = &state;
  trace.last = &state;
  ++trace.variables;
}

void unlink(VariableData& state) {
  auto& trace = *state.trace;
  (state.previous != nullptr ? state.previous->next : trace.first) = state.next;
  (state.next != nullptr ? state.next->previous : trace.last) = state.previous;
  state.previous = state.next = nullptr;
  state.trace = nullptr;
  --trace.variables;
}

// The variable's new value is computed by this trace. (Another thread may have written the one
// before.)
void hold_in(VariableData& state, PendingTrace& trace) {
  if (state.trace == &trace) {
    return;
  }
  if (state.trace != nullptr) {
    unlink(state);
  } else if (state.ir_value.node) {
    state.before = static_cast<const DataNode&>(trace_node(state.ir_value)).buffer();
  }
  link(state, trace);
}

void delete_variable(void* context) {
  c10::intrusive_ptr<Variable>::reclaim(static_cast<Variable*>(context));
}

} // namespace

Variable::Variable(int64_t nbytes)
    : VariableState{VariableData(nbytes)},
      LazyTensor(std::shared_ptr<Data>(std::shared_ptr<void>(), &state)) {
  address_ = nbytes != 0 ? take_addresses(*this, nbytes) : nullptr; // as on other devices
  count_new_storage(nbytes);
}

Variable::~Variable() {
  count_freed_storage(state.nbytes);
  if (address_ != nullptr) {
    give_addresses(address_);
  }
  Value old;
  const RecorderLock lock(recorder_mutex());
  if (state.trace != nullptr) {
    unlink(state);
  }
  std::swap(old, state.ir_value); // freed after the lock, which was made later
}

void Variable::set_value(Value value, PendingTrace& own) {
  state.rewritten = state.rewritten || (state.ir_value.node && trace_node(state.ir_value).is_data);
  const bool pending = value.node && !trace_node(value).is_data;
  if (pending && !capturing) { // what is captured is nobody's to run
    hold_in(state, own);
  } else if (!pending && state.trace != nullptr) {
    unlink(state);
    state.before.reset();
  }
  state.ir_value = std::move(value);
}

void Variable::set_nbytes(int64_t nbytes) {
  count_freed_storage(state.nbytes);
  count_new_storage(nbytes);
  state.nbytes = nbytes;
}

void Variable::ApplyPendingGraph() {
  torch::lazy::LazyGraphExecutor::Get()->SyncLiveTensorsGraph(nullptr, {}, /*wait=*/true);
}

at::Tensor Variable::ToTensor(bool) {
  BufferPtr buffer;
  at::ScalarType dtype{};
  do { // more than once only if another thread records a newer value meanwhile
    if (RecorderLock lock(recorder_mutex()); state.trace != nullptr) {
      hold_in(state, pending_trace());
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

Value settle(VariableData& state, Value value) {
  unlink(state);
  std::swap(state.ir_value, value);
  state.before.reset();
  return value;
}

c10::DataPtr make_data_ptr(int64_t nbytes, Variable** created) {
  check_storage(static_cast<size_t>(nbytes));
  auto variable = c10::make_intrusive<Variable>(nbytes);
  if (created != nullptr) {
    *created = variable.get();
  }
  made_storage.store(true, std::memory_order_relaxed);
  void* address = variable->address();
  return {address, variable.release(), &delete_variable, c10::Device(c10::kPrivateUse1, 0)};
}

bool device_was_used() {
  return made_storage.load(std::memory_order_relaxed);
}

Home home_of(const c10::StorageImpl& storage) {
  const auto& pointer = storage.data_ptr();
  if (pointer.get_deleter() == &delete_variable) {
    return {*static_cast<Variable*>(pointer.get_context()), 0};
  }
  TORCH_CHECK(
      pointer.device().is_privateuseone() && is_address(pointer.get()),
      "this tensor's storage was not allocated by device ftm: make ftm tensors by .to(\"ftm\") or "
      "factory functions");
  const Place place = place_at(pointer.get());
  TORCH_CHECK(place.variable != nullptr, "this tensor's storage is a part of one that is no more");
  return {*place.variable, place.byte};
}

} // namespace ftm
