// The Python lock (GIL), Python exceptions, and signal handlers, as the recorder uses them.
#pragma once

#include <exception>

namespace ftm {

// Releases the GIL for the scope, if this thread holds it. Use it around every wait: the thread
// that finishes the awaited work may need the GIL. If the interpreter is gone when the scope ends,
// the thread parks (support/shutdown.h).
class GilRelease {
 public:
  GilRelease();
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  void* state_ = nullptr;
};

// Acquires the GIL for the scope, unless this thread holds it. If the interpreter is gone, the
// thread parks.
class GilAcquire {
 public:
  GilAcquire();
  ~GilAcquire();
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;

 private:
  int state_; // PyGILState_STATE
};

// Runs the Python handlers of signals that have arrived, if this is the thread on which Python runs
// them. Call it periodically in waits without the GIL. Throws the exception that a handler raises.
void handle_signals();

// Whether Python runs signal handlers on this thread (its main thread). A handler can run between
// any two bytecode instructions, so also while Python code holds locks.
bool runs_signal_handlers();

// Whether a Python kernel raised NotImplementedError.
bool is_python_not_implemented(const std::exception& error);
// Whether the exception is Python's but no subclass of `Exception`: KeyboardInterrupt, SystemExit.
bool is_python_interrupt(const std::exception& error);

} // namespace ftm
