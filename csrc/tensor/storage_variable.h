// A storage of device `ftm` is a variable: its data pointer's context owns a torch::lazy
// LazyTensor, whose value is the storage's content in row-major order. The data pointer itself is a
// fake address (tensor/fake_addresses.h).
#pragma once

#include "graph/recorder_lock.h"
#include "graph/node.h"
#include "graph/pending_trace.h"

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <torch/csrc/lazy/core/tensor.h>

#include <optional>

namespace ftm {

class Variable;

// A variable's state. Guarded by the recorder's lock.
struct VariableData final : torch::lazy::LazyTensor::Data {
  VariableData(int64_t nbytes, c10::DeviceIndex device)
      : Data(lazy_device()), nbytes(nbytes), device(device) {}
  int64_t nbytes; // of the storage
  const c10::DeviceIndex device;
  BufferPtr old_buffer; // while pending: the last computed value, restored if the program fails
  uint64_t step = 0; // number of the optimizer step that last overwrote a computed value
  // The pending call that fills this storage because it was read or written in part before it had a
  // value, as `torch.empty` leaves it: its CallNode::sequence. Empty if there is none.
  std::optional<uint64_t> initial_fill;
  // This is state (a parameter, a cache): a computed value was overwritten, or an optimizer's step
  // overwrote a value.
  bool rewritten = false;
  PendingTrace* trace = nullptr; // the trace in which the value is pending, or null
  VariableData* previous = nullptr; // in that trace's list
  VariableData* next = nullptr;
};

// Replaces a pending value by its computed one and removes the variable from its trace. Returns the
// old value, so that the caller can free the graph after unlocking.
Value set_computed(VariableData& state, Value value);

// A base class of Variable, so that it is constructed before torch::lazy's part, which points to
// it.
struct VariableState { VariableData state; };

class Variable final : private VariableState, public torch::lazy::LazyTensor {
 public:
  Variable(int64_t nbytes, c10::DeviceIndex device);
  ~Variable() override;

  // All member functions below: under the recorder's lock.

  // Returns the content; without a node if it was never written.
  const Value& value() const { return state.ir_value; }
  // Replaces the content. `value` must have the storage's size in bytes. A pending value is added
  // to the trace `own`.
  void set_value(Value value, PendingTrace& own = pending_trace());
  int64_t nbytes() const { return state.nbytes; }
  void set_nbytes(int64_t nbytes);
  // Sets the content of a storage without a value. `fill` is a recorded call.
  void set_initial_value(Value fill);
  // Returns the fake address of the first byte; null for an empty storage.
  void* address() const { return address_; }
  uint64_t step() const { return state.step; }
  bool rewritten() const { return state.rewritten; }
  // Returns the trace that computes the value; null if it is computed, or was never written.
  PendingTrace* trace() const { return state.trace; }
  Value set_computed(Value value) { return ftm::set_computed(state, std::move(value)); }

  // Overrides that torch::lazy calls.
  void ApplyPendingGraph() override;
  at::Tensor ToTensor(bool detached) override;

 private:
  void* address_ = nullptr;
};

// Makes the data pointer of a new storage of `nbytes` bytes on the current device. Throws
// c10::OutOfMemoryError. `created`, if not null, receives the variable, which the pointer owns.
c10::DataPtr make_data_ptr(int64_t nbytes, Variable** created = nullptr);

// Whether this process has made a storage on the device.
bool device_was_used();

// The bytes of a storage: a variable's, from `begin` on. `begin` is 0 unless the storage is a slice
// of another storage.
struct StorageSlice {
  Variable& variable;
  int64_t begin;
};
// Throws if the storage does not belong to the device, or to a freed storage.
StorageSlice storage_slice(const c10::StorageImpl& storage);

inline Variable& variable_of(const c10::StorageImpl& storage) {
  return storage_slice(storage).variable;
}
inline Variable& variable_of(const at::TensorImpl& tensor) {
  return variable_of(*tensor.unsafe_storage().unsafeGetStorageImpl());
}

} // namespace ftm
