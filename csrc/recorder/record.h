// Recording: a call becomes a node of the pending graph.
#pragma once

#include "graph/node.h"
#include "ops/op.h"
#include "tensor/variable.h"

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

// A node for one call of `form`, under the recorder's lock.
Value add_call(
    torch::lazy::OpKind kind, FormPtr form, c10::ArrayRef<Value> values,
    c10::ArrayRef<uint64_t> scalars);
// Every kernel begins with this: cuts when the pending graph is long, and notes the Python line if errors
// shall name it. Not under the recorder's lock.
void begin_recording();
// Whether errors of a running program name the Python line that recorded the call.
void set_locations(bool on);
// Where a call was recorded, as text.
struct Location final : torch::lazy::UserMetaData {
  explicit Location(std::string text) : text(std::move(text)) {}
  std::string text;
};

// Calls recorded since the last cut, under the recorder's lock.
int64_t& pending_length();

// An aten call on values instead of tensors, for kernels that know the result's type themselves.
// `arguments` has None for operands; `values` are given to the arguments in `operands`, in order.
// Under the recorder's lock.
Value call_on_values(
    Op& op, std::vector<c10::IValue> arguments, const std::vector<int32_t>& operands,
    c10::ArrayRef<Value> values, ValueType result);
// The same for an op whose argument `scalar` is the only operand besides: a runtime scalar.
Value call_with_scalar(
    Op& op, std::vector<c10::IValue> arguments, int32_t scalar, const at::Scalar& value, ValueType result);

// Bits of a runtime scalar: f64 for floats, i64 for integers.
uint64_t scalar_bits(const at::Scalar& value);

} // namespace ftm
