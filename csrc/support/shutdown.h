// The end of the process. A thread that waits for Python's lock while the interpreter is taken down
// is ended by Python, which unwinds its stack: through C++, PyTorch's and ours, that ends the
// process with "terminate called without an active exception". So from the interpreter's last
// handler on, other threads of Python do not come back from calls on the device: they rest, without
// Python's lock, until the process is gone, as all threads do from Python 3.14 on. One that is
// late, in an operation of PyTorch's own, rests where its unwinding would terminate the process.
#pragma once

// Of a function that catches abi::__forced_unwind, by which Python ends a thread: that exception
// has no object, and sanitizers take the handler's reference to none for a fault.
#define FTM_CATCHES_FORCED_UNWIND __attribute__((no_sanitize("null")))

namespace ftm {

// Sleeps until the process ends; gives Python's lock up if this thread holds it.
[[noreturn]] void park_thread();

// For the thread that ends the interpreter, without Python's lock: others rest from now on. Waits
// for those that record, but not long: a thread may be busy with something else.
void begin_end();

// Whether it has begun.
bool is_ending();

// Rests if the process is ending, this is a thread of Python, and not the one that ends it. Not
// under a lock.
void rest_if_ending();

// Counts a thread that records, while it lives.
class RecordingThread {
 public:
  RecordingThread();
  ~RecordingThread();
  RecordingThread(const RecordingThread&) = delete;
  RecordingThread& operator=(const RecordingThread&) = delete;
};

} // namespace ftm
