// Cuts: what is pending becomes a program and is launched.
#pragma once

#include "tensor/storage_variable.h"

#include <string>
#include <vector>

namespace ftm {

enum class CutReason {
  ended, // a step, or the thread, or another one needs it
  observed, // somebody reads it
  length, // what comes next is a piece of the same trace
};

// Takes all that is pending and live in the trace as one program and launches it. Not under the
// recorder's lock.
void launch(PendingTrace& pending, CutReason why);

// Launches the thread's trace, and what threads that have ended left behind. With `wait`, returns
// when everything that any thread launched has ended, and throws what went wrong. Not under the
// recorder's lock.
void sync(bool wait);

// The recorder's lock, for a call on these: what is pending in another thread's trace among them is
// launched first, so that each trace is recorded by one thread.
RecorderLock lock_to_read(
    c10::ArrayRef<const at::TensorImpl*> tensors, PendingTrace& own = pending_trace());

// The variable's content, computed: cuts if it is pending, waits, throws if its program failed.
// Null for a storage that was never written.
BufferPtr observe(Variable& variable);

// Text of the program that would compute these values, or all that is pending in the thread's
// trace; runs nothing.
std::string pending_text(const std::vector<Value>& values);

// Cuts when the thread's trace has grown over the limit, or where its loop is cut
// (graph/loop_detector.h). Not under the recorder's lock.
void cut_if_long(PendingTrace& own = pending_trace());
// Whether programs are always compiled by the thread that launches them, for who looks at its stack
// meanwhile.
void set_compile_at_launch(bool always);
// 0: no limit.
void set_trace_limit(int64_t nodes);

} // namespace ftm
