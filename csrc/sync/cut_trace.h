// Sync points: cut the pending trace, launch it, and wait for results.
#pragma once

#include "graph/trace.h"
#include "tensor/storage_variable.h"

#include <vector>

namespace ftm {

// Why a trace is cut.
enum class CutReason {
  ended, // a step or the thread has ended, or another thread needs a value
  observed, // a value is read
  length, // it is long; the next calls belong to the same trace
};

// Launches all pending values of a trace. Does not wait for their results. Throws if launches are
// forbidden, in a forked process, or as `launch_units` (compile/compile_threads.h). Must not be
// called under the recorder's lock.
void launch(PendingTrace& pending, CutReason why);

// Launches the calling thread's trace and the traces of ended threads. With `wait`, waits until all
// jobs of all threads have ended, and throws an error that was not raised yet. Must not be called
// under the recorder's lock.
void sync(bool wait);

// Acquires the recorder's lock for recording a call on these tensors. First launches the traces of
// other threads in which one of them is pending, so that a trace has the calls of one thread only.
RecorderLock lock_to_read(
    c10::ArrayRef<const at::TensorImpl*> tensors, PendingTrace& own = pending_trace());

// Returns the variable's computed content, or null if it was never written. Cuts the trace if the
// value is pending, waits, and throws the error of its program. Must not be called under the
// recorder's lock.
BufferPtr observe(Variable& variable);

// Returns the trace that computes these values; without values, everything pending in the thread's
// trace. Launches nothing.
Trace trace_of_pending(const std::vector<Value>& values);

// Launches the thread's trace if it is longer than the limit, or if its loop is to be cut here
// (graph/loop_detector.h). Must not be called under the recorder's lock.
void cut_if_long(PendingTrace& own = pending_trace());
// Sets the trace's maximum number of calls; 0 for no limit. Throws ValueError if negative.
void set_trace_limit(int64_t nodes);

} // namespace ftm
