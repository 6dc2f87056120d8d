#include "torch/backward_on_calling_thread.h"

#include "graph/source_location.h"

#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <optional>

namespace py = pybind11;

namespace ftm {
namespace {

// Whether the backward passes that this thread begins may use other threads.
void allow_threads(bool allow) {
  c10::AutogradState::get_tls_state().set_multithreading_enabled(allow);
}

// Forbids other threads for its lifetime.
class OnThisThread {
 public:
  OnThisThread() : allowed_(c10::AutogradState::get_tls_state().get_multithreading_enabled()) {
    allow_threads(false);
  }
  ~OnThisThread() { allow_threads(allowed_); }
  OnThisThread(const OnThisThread&) = delete;
  OnThisThread& operator=(const OnThisThread&) = delete;

 private:
  bool allowed_;
};

// Hides the module that called `backward()`. A module that the pass calls, to run a part of the
// forward pass again, is not hidden.
class OutsideOfModules {
 public:
  OutsideOfModules() { push_module(""); }
  ~OutsideOfModules() { pop_module(); }
  OutsideOfModules(const OutsideOfModules&) = delete;
  OutsideOfModules& operator=(const OutsideOfModules&) = delete;
};

bool is_on_device(const py::handle& output) {
  return THPVariable_Check(output.ptr()) && // otherwise it is an edge of the graph
         THPVariable_Unpack(output.ptr()).is_privateuseone();
}

} // namespace

py::object run_backward(
    const py::function& run, const py::sequence& outputs, const py::args& arguments,
    const py::kwargs& keywords) {
  std::optional<OnThisThread> on_this_thread;
  if (std::any_of(outputs.begin(), outputs.end(), is_on_device)) {
    on_this_thread.emplace();
  }
  const OutsideOfModules hidden;
  return run(outputs, *arguments, **keywords);
}

} // namespace ftm
