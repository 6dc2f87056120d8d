#include "process/python.h"

#include "process/ending.h"

#include <torch/csrc/Exceptions.h>
#include <cxxabi.h>
#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

namespace py = pybind11;

namespace ftm {
WithoutGil::WithoutGil() {
  if (Py_IsInitialized() && PyGILState_Check()) {
    state_ = PyEval_SaveThread();
  }
}

FTM_CATCHES_FORCED_UNWIND WithoutGil::~WithoutGil() {
  if (state_ != nullptr) {
    try {
      PyEval_RestoreThread(static_cast<PyThreadState*>(state_));
    } catch (const abi::__forced_unwind&) {
      rest();
    }
  }
}

FTM_CATCHES_FORCED_UNWIND WithGil::WithGil() {
  try {
    state_ = PyGILState_Ensure();
  } catch (const abi::__forced_unwind&) {
    rest();
  }
}

WithGil::~WithGil() {
  PyGILState_Release(static_cast<PyGILState_STATE>(state_));
}

void handle_signals() {
  if (!Py_IsInitialized() || PyGILState_GetThisThreadState() == nullptr) {
    return;
  }
  const WithGil gil;
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
  const WithGil gil;
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
