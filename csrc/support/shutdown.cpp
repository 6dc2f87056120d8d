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

// Long enough for a thread that gets Python's lock now and then to come to its next call.
constexpr auto kPatience = std::chrono::milliseconds(200);
constexpr auto kTick = std::chrono::milliseconds(1);

std::atomic<int> recording{0};
std::atomic<int> resting{0};
std::atomic<bool> ending{false};
thread_local bool records = false;
thread_local bool ends = false;
std::terminate_handler terminate_as_before = nullptr;

// What unwinds a thread that Python ends is no exception of C++; where a destructor of PyTorch's is
// in its way, the thread rests.
void rest_or_terminate() {
  if (!ends && abi::__cxa_current_exception_type() == nullptr) park_thread();
  terminate_as_before();
  std::abort();
}

} // namespace

RecordingThread::RecordingThread() {
  records = true;
  ++recording;
}

RecordingThread::~RecordingThread() {
  records = false;
  --recording;
}

void park_thread() {
  resting += records;
  if (Py_IsInitialized() && PyGILState_Check()) {
    PyEval_SaveThread();
  }
  while (true) {
    pause();
  }
}

void begin_end() {
  ends = true;
  if (!ending.exchange(true)) terminate_as_before = std::set_terminate(rest_or_terminate);
  if (recording > records) {
    // One of autograd's threads that rests in the midst of another's backward does not answer
    // PyTorch, which would wait ten seconds.
    setenv("TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT", "0", /*replace=*/0);
  }
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (resting < recording - records && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kTick);
  }
}

bool is_ending() {
  return ending;
}

void rest_if_ending() {
  if (ending.load(std::memory_order_relaxed) && !ends &&
      PyGILState_GetThisThreadState() != nullptr) {
    park_thread();
  }
}

} // namespace ftm
