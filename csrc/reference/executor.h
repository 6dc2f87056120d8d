// The reference executor: runs a trace call by call on the CPU through ATen. It runs programs that
// the compiler could not compile, and is the oracle of differential tests.
#pragma once

#include "graph/trace.h"
#include "program/source_origin.h"

#include <functional>

namespace ftm {

// The results of a run, which ends at the first call that throws.
struct ReferenceResults {
  std::vector<at::Tensor> tensors; // of any strides; undefined if the run ended before
  FailurePtr failure; // error of the call that threw; null if none did
};

// Runs a trace on the calling thread. `inputs` has one tensor for each parameter, `scalars` the
// bits of each scalar operand. `before_call` is called before each call; an exception that it
// throws ends the run and is passed on. Errors of calls are returned, with the place from `origin`.
ReferenceResults run_reference(
    const Trace& trace, std::vector<at::Tensor> inputs, const std::vector<uint64_t>& scalars,
    const Origin& origin, void (*before_call)());

// Computes a graph of a few small calls on the calling thread, without making a trace. The inputs'
// buffers are ready. Returns `graph.result_numbers`, of any strides. Throws the error of a call.
std::vector<at::Tensor> evaluate_graph(const Graph& graph, c10::ArrayRef<Input> inputs);

// For a kernel that another thread completes, such as a collective in flight: `wait` is called
// before this run reads `result` again, if it does. Call it on the thread of the run.
void complete_before_read(at::Tensor result, std::function<void()> wait);

// Returns an input's elements as a row-major CPU tensor that shares its memory and keeps it alive.
at::Tensor dense_on_cpu(const Input& input, const ValueType& type);
// Copies a result to the buffer's memory, in row-major order. The buffer must be allocated.
void store_on_cpu(const at::Tensor& result, const ValueType& type, const Buffer& buffer);

} // namespace ftm
