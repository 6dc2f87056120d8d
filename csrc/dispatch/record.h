// Recording: a call becomes a node of the pending graph.
#pragma once

#include "graph/pending_trace.h"
#include "ops/op_info.h"

#include <ATen/core/stack.h>

#include <atomic>

namespace ftm {

// The op that a kernel was registered for.
class CalledOp {
 public:
  explicit CalledOp(std::string name) : name_(std::move(name)) {}
  Op& get();

 private:
  std::string name_;
  std::atomic<Op*> op_{nullptr}; // found at the first call: most ops are never called
};

// The kernel of every op that has none of its own: records the call that is on the stack. (Those of
// most ops take their arguments by C++ types: typed_kernels.h.)
class RecordKernel final : public c10::OperatorKernel {
 public:
  explicit RecordKernel(std::string name) : op_(std::move(name)) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack);

 private:
  CalledOp op_;
};

// Whatever has to be done to record the call.
void record(Op& op, torch::jit::Stack* stack);

using Results = c10::SmallVector<at::Tensor, 4>;

// Records the call if nothing has to be done to its arguments first: gives its form, and the new
// tensors that it returns, if the op writes to none. Null: it is `record`'s.
CallSpecPtr try_record(Op& op, c10::ArrayRef<c10::IValue> arguments, Results& results);

// Every kernel begins with this: cuts when the pending graph is long, and notes the Python line
// where all calls have theirs noted. Gives the thread's trace. Not under the recorder's lock.
PendingTrace& begin_recording();

} // namespace ftm
