// The calls that are recorded and not launched yet. Each thread of the user's program has its own
// trace, so that threads that train separate models cut their traces as each would alone.
//
// Autograd's threads record into the trace of the thread that called backward. PyTorch propagates
// the trace with the thread's state (c10/util/ThreadLocalDebugInfo.h). A value that is pending in
// one trace is launched before another thread reads it (sync/cut_trace.h). If a race prevents that,
// its calls are part of both traces: redundant, but correct.
#pragma once

#include "graph/loop_detector.h"
#include "graph/call_range.h"
#include "graph/node.h"
#include "support/python_location.h"

#include <atomic>
#include <unordered_set>
#include <vector>

namespace ftm {

struct VariableData;

// The optimizer step that was begun or ended last, and the calls since. Guarded by the recorder's
// lock.
struct OptimizerStepState {
  CallRange recorded; // the pending calls that were recorded during the step
  // True from the end of a step until the next one begins or the trace is launched. Recorded calls
  // are checked for the next step's begin meanwhile.
  std::atomic<bool> ended{false}; // may be read without the lock
  uint64_t number = 0; // unique over all traces
  uint64_t optimizer = 0;
  bool launched = true;
  int64_t deferred_calls = 0; // pending when the step ended without a launch
  // Optimizers whose last step was followed by reads of metrics. Their steps are not launched at
  // once, so that the metrics become part of the step's program.
  std::unordered_set<uint64_t> deferred_optimizers;
};

// Guarded by the recorder's lock. Never freed: when its thread ends, a new thread reuses it.
struct PendingTrace {
  ThreadIdent owner = 0; // the thread whose calls it has
  std::atomic<int64_t> calls{0}; // recorded since the last cut; may be read without the lock
  CallLog log; // the same calls, for loop detection
  VariableData* first = nullptr; // list of variables with pending values, oldest first
  VariableData* last = nullptr;
  size_t variables = 0; // length of that list
  std::atomic<bool> trains{false}; // a call is differentiated, or belongs to a backward pass
  OptimizerStepState step;
  // Decisions that the CPU may make (sync/decisions_on_cpu.h), since the last step or long trace.
  int decisions = 0;
  // Identifies the calls from one launch to the next, where launches because of length do not
  // count; 0 if no segment of them was launched yet.
  uint64_t trace_id = 0;
};

// Returns the calling thread's trace, or that of the thread for which it works. The look-up costs
// as much as the rest of recording a call, so look it up once and pass it along.
PendingTrace& pending_trace();

// Returns the traces of ended threads that have pending calls; the caller launches them. Must not
// be called under the recorder's lock.
std::vector<PendingTrace*> take_orphaned_traces();
// Returns a launched trace for reuse. Must not be called under the recorder's lock.
void release_trace(PendingTrace& trace);

// Returns the CallNode::sequence of the next call on any thread. Call it under the recorder's lock.
uint64_t next_call();

// Appends a call of `spec` to a trace. Call it under the recorder's lock.
Value add_call(
    torch::lazy::OpKind kind, CallSpecPtr spec, Operands values, c10::ArrayRef<uint64_t> scalars,
    PendingTrace& trace = pending_trace());

} // namespace ftm
