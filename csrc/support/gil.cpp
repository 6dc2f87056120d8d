#include "support/gil.h"

#include "support/shutdown.h"

#include <torch/csrc/Exceptions.h>
#include <cxxabi.h>
#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

namespace py = pybind11;

namespace ftm {
GilRelease::GilRelease() {
  if (Py_IsInitialized() && PyGILState_Check()) {
    state_ = PyEval_SaveThread();
  }
}

FTM_CATCHES_FORCED_UNWIND GilRelease::~GilRelease() {
  if (state_ != nullptr) {
    try {
      PyEval_RestoreThread(static_cast<PyThreadState*>(state_));
    } catch (const abi::__forced_unwind&) {
      park_thread();
    }
  }
}

FTM_CATCHES_FORCED_UNWIND GilAcquire::GilAcquire() {
  try {
    state_ = PyGILState_Ensure();
  } catch (const abi::__forced_unwind&) {
    park_thread();
  }
}

GilAcquire::~GilAcquire() {
  PyGILState_Release(static_cast<PyGILState_STATE>(state_));
}

void handle_signals() {
  if (!Py_IsInitialized() || PyGILState_GetThisThreadState() == nullptr) {
    return;
  }
  const GilAcquire gil;
  if (PyErr_CheckSignals() != 0) {
    throw py::error_already_set();
  }
}

bool runs_signal_handlers() {
  return gettid() == getpid(); // Python's main thread, in a forked child as well
}

namespace {

bool is_python_error(const std::exception& error) {
  return dynamic_cast<const py::error_already_set*>(&error) != nullptr ||
         dynamic_cast<const python_error*>(&error) != nullptr;
}

bool matches(const std::exception& error, PyObject* type) {
  const GilAcquire gil;
  if (const auto* from_pybind = dynamic_cast<const py::error_already_set*>(&error)) {
    return from_pybind->matches(type);
  }
  const auto* from_torch = dynamic_cast<const python_error*>(&error);
  return from_torch->type != nullptr && PyErr_GivenExceptionMatches(from_torch->type, type);
}

} // namespace

bool is_python_not_implemented(const std::exception& error) {
  return is_python_error(error) && matches(error, PyExc_NotImplementedError);
}

bool is_python_interrupt(const std::exception& error) {
  return is_python_error(error) && !matches(error, PyExc_Exception);
}

} // namespace ftm
