#include "support/shutdown.h"

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>

namespace ftm {
namespace {

// How long shutdown waits for recording threads to park: long enough for a thread that gets the GIL
// now and then to reach its next call on the device.
constexpr auto kParkTimeout = std::chrono::milliseconds(200);
constexpr auto kTick = std::chrono::milliseconds(1);

std::atomic<int> recording{0};
std::atomic<int> parked{0};
std::atomic<bool> shutting_down{false};
thread_local bool is_recording = false;
thread_local bool is_finalizer = false;
std::terminate_handler previous_terminate = nullptr;

// Terminate handler. Python is_finalizer a thread by a forced unwind, which is no C++ exception; a
// noexcept destructor of PyTorch on its stack then calls std::terminate. The thread parks instead.
void park_or_terminate() {
  if (!is_finalizer && abi::__cxa_current_exception_type() == nullptr) park_thread();
  previous_terminate();
  std::abort();
}

} // namespace

RecordingThread::RecordingThread() {
  is_recording = true;
  ++recording;
}

RecordingThread::~RecordingThread() {
  is_recording = false;
  --recording;
}

void park_thread() {
  parked += is_recording;
  if (Py_IsInitialized() && PyGILState_Check()) {
    PyEval_SaveThread();
  }
  while (true) {
    pause();
  }
}

void begin_shutdown() {
  is_finalizer = true;
  if (!shutting_down.exchange(true)) previous_terminate = std::set_terminate(park_or_terminate);
  if (recording > is_recording) {
    // An autograd thread that is parked inside another thread's backward never answers PyTorch,
    // which would wait 10 s for it.
    setenv("TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT", "0", /*replace=*/0);
  }
  const auto until = std::chrono::steady_clock::now() + kParkTimeout;
  while (parked < recording - is_recording && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kTick);
  }
}

bool is_shutting_down() {
  return shutting_down;
}

void park_if_shutting_down() {
  if (shutting_down.load(std::memory_order_relaxed) && !is_finalizer &&
      PyGILState_GetThisThreadState() != nullptr) {
    park_thread();
  }
}

} // namespace ftm
