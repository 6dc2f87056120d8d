// Shutdown of the process. While the interpreter is finalized, Python ends every other thread that
// tries to take the GIL, by unwinding its stack. Through C++ frames that terminates the process
// ("terminate called without an active exception"). So from the interpreter's last atexit handler
// on, other Python threads do not return from calls on the device: they park, without the GIL,
// until the process is gone. Python 3.14 and later do the same with all threads. A thread that gets
// into the unwinding elsewhere, in PyTorch's own code, parks in the terminate handler.
#pragma once

// For functions that catch abi::__forced_unwind. That exception has no object, and sanitizers
// report the handler's null reference as an error.
#define FTM_CATCHES_FORCED_UNWIND __attribute__((no_sanitize("null")))

namespace ftm {

// Sleeps until the process ends. Releases the GIL if this thread holds it.
[[noreturn]] void park_thread();

// Begins the shutdown: from now on, other Python threads park at their next call on the device.
// Called without the GIL by the thread that finalizes the interpreter. Waits up to 200 ms for the
// recording threads to park.
void begin_shutdown();

// Whether the shutdown has begun.
bool is_shutting_down();

// Parks this thread if the shutdown has begun, unless it is no Python thread or the one that
// finalizes the interpreter. Must not be called with a lock held.
void park_if_shutting_down();

// Registers this thread as recording for the object's lifetime.
class RecordingThread {
 public:
  RecordingThread();
  ~RecordingThread();
  RecordingThread(const RecordingThread&) = delete;
  RecordingThread& operator=(const RecordingThread&) = delete;
};

} // namespace ftm
