// What of Python the recorder needs: its lock and its exceptions.
#pragma once

#include <exception>

namespace ftm {

// Gives the GIL up for the scope, if this thread holds it: whoever waits must not keep others from
// finishing what it waits for. A thread that would get it back when the interpreter is gone rests
// (support/shutdown.h).
class GilRelease {
 public:
  GilRelease();
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  void* state_ = nullptr;
};

// Takes the GIL for the scope, unless this thread holds it; rests where the interpreter is gone.
class GilAcquire {
 public:
  GilAcquire();
  ~GilAcquire();
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;

 private:
  int state_; // PyGILState_STATE
};

// For a thread that waits without the GIL: runs the handlers of signals that have arrived, if this
// is the thread that Python runs them on. Throws what a handler raises.
void handle_signals();

// Whether Python runs handlers of signals on this thread: between any two instructions of Python,
// and so under its locks.
bool runs_signal_handlers();

// True if a Python kernel raised NotImplementedError.
bool is_python_not_implemented(const std::exception& error);
// True for KeyboardInterrupt and its like.
bool is_python_interrupt(const std::exception& error);

} // namespace ftm
