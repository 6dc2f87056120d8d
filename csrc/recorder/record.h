// Recording: a call becomes a node of the pending graph.
#pragma once

#include "graph/pending.h"
#include "ops/op.h"

#include <ATen/core/stack.h>

#include <atomic>

namespace ftm {

// The kernel of every op that has none of its own: records the call that is on the stack.
class RecordKernel final : public c10::OperatorKernel {
 public:
  explicit RecordKernel(std::string name) : name_(std::move(name)) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack);

 private:
  std::string name_;
  std::atomic<Op*> op_{nullptr}; // found at the first call: most ops are never called
};

void record(Op& op, torch::jit::Stack* stack);

// Every kernel begins with this: cuts when the pending graph is long, and notes the Python line where all calls have
// theirs noted. Gives the thread's trace. Not under the recorder's lock.
PendingTrace& begin_recording();

} // namespace ftm
