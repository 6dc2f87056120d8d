// Records calls: each becomes a node of the pending graph. All functions must be called without the
// recorder's lock.
#pragma once

#include "graph/pending_trace.h"
#include "ops/op_info.h"

#include <ATen/core/stack.h>

#include <atomic>

namespace ftm {

// Refers to the op for which a kernel is registered. The look-up is deferred to the first call,
// since most ops are never called. Thread-safe.
class OpReference {
 public:
  explicit OpReference(std::string name) : name_(std::move(name)) {}
  Op& get();

 private:
  std::string name_;
  std::atomic<Op*> op_{nullptr}; // null until the first call
};

// The boxed kernel of ops without a specific kernel: records the call on the stack. Most ops have
// an unboxed one (dispatch/unboxed_kernels.h).
class RecordKernel final : public c10::OperatorKernel {
 public:
  explicit RecordKernel(std::string name) : op_(std::move(name)) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack);

 private:
  OpReference op_;
};

// Records the call on the stack and replaces the arguments by the returns. If the call cannot be
// recorded, replaces arguments, calls a composite kernel, or runs it on the CPU. Throws eager's
// errors.
void record(Op& op, torch::jit::Stack* stack);

using Results = c10::SmallVector<at::Tensor, 4>;

// Records a call if its arguments need not be replaced. Returns its spec, and in `results` the new
// tensors that it returns, if the op writes to none. Returns null if `record` must handle the call.
// Throws eager's errors.
CallSpecPtr try_record(Op& op, c10::ArrayRef<c10::IValue> arguments, Results& results);

// Must be the first call of every kernel. Launches the thread's trace if it is long, and notes the
// user's line if lines of all calls are noted. Returns the thread's trace.
PendingTrace& begin_recording();

} // namespace ftm
