// What has been recorded and is not launched yet grows by one call at a time, in a trace for each
// thread of the user's program: threads that train models of their own cut them where each would
// alone.
//
// Threads that compute gradients work for the thread that asked for them and record into its trace:
// it is handed on as PyTorch hands on a thread's state (c10/util/ThreadLocalDebugInfo.h). What is
// pending in one trace and read in another is launched first (sync/cut_trace.h); if it is not, its
// calls are part of both, which costs time and no result.
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

// The optimizer step that began last, or ended, and what was recorded since. Under the recorder's
// lock.
struct LastStep {
  CallRange recorded; // the calls that are pending and were recorded while it went on
  // True from the end of a step until the next one begins or the trace is launched: calls are
  // looked at then.
  std::atomic<bool> over{false}; // read without the lock
  uint64_t number = 0; // no other step of any trace has it
  uint64_t optimizer = 0;
  bool launched = true;
  int64_t calls = 0; // that were pending when it ended and are so still
  std::unordered_set<uint64_t> waits; // optimizers whose last step was followed by metrics
};

// Under the recorder's lock. Lives as long as the process: a thread that ends leaves it to the next
// one.
struct PendingTrace {
  ThreadIdent owner = 0; // whose calls it has, as Python knows the thread
  std::atomic<int64_t> calls{0}; // recorded since the last cut; read without the lock
  CallLog log; // the same calls, for who looks for loops among them
  VariableData* first =
      nullptr; // variables whose value is pending, in the order in which they became so
  VariableData* last = nullptr;
  size_t variables = 0; // how many these are
  std::atomic<bool> trains{
      false}; // gradients are recorded for a call of it, or it computes or uses some
  LastStep step;
  int decisions =
      0; // small reads that decided what Python does next, since the last step or long trace
  // A number for what is recorded until it is launched for another reason than its length; 0: for
  // nothing yet.
  uint64_t whole = 0;
};

// That of the calling thread, or of the thread for which it works. Looking it up costs as much as
// the rest of adding a call: who records asks once, and hands it on.
PendingTrace& pending_trace();

// Traces whose thread has ended while something was pending there: they are the caller's to launch.
// Not under the recorder's lock.
std::vector<PendingTrace*> take_orphaned_traces();
// Gives one back that was launched. Not under the recorder's lock.
void release_trace(PendingTrace& trace);

// CallNode::sequence of the next call that any thread records. Under the recorder's lock.
uint64_t next_call();

// A node for one call of `spec`, in the thread's trace, under the recorder's lock.
Value add_call(
    torch::lazy::OpKind kind, CallSpecPtr spec, Operands values, c10::ArrayRef<uint64_t> scalars,
    PendingTrace& trace = pending_trace());

} // namespace ftm
