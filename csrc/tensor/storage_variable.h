// A storage of device `ftm` is a variable: its data pointer's context owns a torch::lazy LazyTensor
// whose value is the storage's current content, row-major. The pointer itself is an address that
// nobody can dereference, unique to the storage (addresses.h).
#pragma once

#include "graph/recorder_lock.h"
#include "graph/node.h"
#include "graph/pending_trace.h"

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <torch/csrc/lazy/core/tensor.h>

namespace ftm {

class Variable;

struct VariableData final : torch::lazy::LazyTensor::Data {
  explicit VariableData(int64_t nbytes) : Data(lazy_device()), nbytes(nbytes) {}
  int64_t nbytes; // of the storage
  BufferPtr before; // while pending: the last value in memory, which a failing program gives back
  uint64_t step = 0; // the optimizer step that last wrote over a value in memory here
  bool rewritten = false; // a value in memory was written over: it is state
  PendingTrace* trace = nullptr; // where the value is pending; null if it isn't
  VariableData* previous = nullptr; // of that trace
  VariableData* next = nullptr;
};

// Replaces a pending variable's value by one in memory and takes it out of its trace; returns the
// old value, so that the caller frees the graph when the lock is gone.
Value settle(VariableData& state, Value value);

// Lies in the variable: a base, so that it is there before torch::lazy's part, which points to it.
struct VariableState { VariableData state; };

class Variable final : private VariableState, public torch::lazy::LazyTensor {
 public:
  explicit Variable(int64_t nbytes);
  ~Variable() override;

  // All below: under the recorder's lock.

  // Empty: never written.
  const Value& value() const { return state.ir_value; }
  // `value`'s bytes must be the storage's. `own`: the thread's trace, which holds it while it is
  // pending.
  void set_value(Value value, PendingTrace& own = pending_trace());
  int64_t nbytes() const { return state.nbytes; }
  void set_nbytes(int64_t nbytes);
  // Of the storage's first byte; null if it has none.
  void* address() const { return address_; }
  uint64_t step() const { return state.step; }
  bool rewritten() const { return state.rewritten; }
  // The trace that computes the value; null if it is in memory, or was never written.
  PendingTrace* trace() const { return state.trace; }
  Value settle(Value value) { return ftm::settle(state, std::move(value)); }

  // torch::lazy's own entries.
  void ApplyPendingGraph() override;
  at::Tensor ToTensor(bool detached) override;

 private:
  void* address_ = nullptr;
};

// The pointer of a new storage; `nbytes` is what a user sees.
c10::DataPtr make_data_ptr(int64_t nbytes, Variable** created = nullptr);

// Whether this process has made a storage on the device.
bool device_was_used();

// Where a storage's bytes lie: in all of a variable, or, for a slice of a storage, from a byte on.
struct Home {
  Variable& variable;
  int64_t begin;
};
Home home_of(const c10::StorageImpl& storage);

inline Variable& variable_of(const c10::StorageImpl& storage) {
  return home_of(storage).variable;
}
inline Variable& variable_of(const at::TensorImpl& tensor) {
  return variable_of(*tensor.unsafe_storage().unsafeGetStorageImpl());
}

} // namespace ftm
