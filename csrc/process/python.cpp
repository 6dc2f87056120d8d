#include "process/python.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <atomic>

namespace py = pybind11;

namespace ftm {
namespace {

PyObject* compile_function = nullptr; // owned; guarded by the GIL
PyObject* observer = nullptr; // owned; guarded by the GIL
std::atomic<bool> observed{false};

void replace(PyObject*& slot, void* callable) {
  PyObject* old = slot;
  slot = static_cast<PyObject*>(callable);
  Py_XINCREF(slot);
  Py_XDECREF(old);
}

} // namespace

WithoutGil::WithoutGil() {
  if (Py_IsInitialized() && PyGILState_Check()) {
    state_ = PyEval_SaveThread();
  }
}

WithoutGil::~WithoutGil() {
  if (state_ != nullptr) {
    PyEval_RestoreThread(static_cast<PyThreadState*>(state_));
  }
}

namespace {

bool is_python_error(const std::exception& error) {
  return dynamic_cast<const py::error_already_set*>(&error) != nullptr ||
      dynamic_cast<const python_error*>(&error) != nullptr;
}

bool matches(const std::exception& error, PyObject* type) {
  py::gil_scoped_acquire gil;
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

std::string python_location() {
  if (!Py_IsInitialized()) {
    return {};
  }
  py::gil_scoped_acquire gil;
  auto frame = py::reinterpret_steal<py::object>(
      reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code =
        py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(raw)));
    const auto file = code.attr("co_filename").cast<std::string>();
    if (file.find("/torch/") == std::string::npos && file.find("/ftm_lazy/") == std::string::npos) {
      return file + ":" + std::to_string(PyFrame_GetLineNumber(raw));
    }
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
  return {};
}

CompileResult compile_in_python(const std::string& trace_text) {
  CompileResult result;
  py::gil_scoped_acquire gil;
  if (compile_function == nullptr) {
    result.error = "no compiler is set";
    return result;
  }
  try {
    const py::object image = py::handle(compile_function)(py::str(trace_text));
    result.image = image.cast<py::bytes>();
    if (result.image.empty()) {
      result.error = "the compiler returned an empty image";
    }
  } catch (py::error_already_set& error) {
    result.error = py::str(error.type().attr("__name__")).cast<std::string>() + ": " +
        py::str(error.value()).cast<std::string>();
    if (!error.matches(PyExc_Exception)) { // KeyboardInterrupt, SystemExit
      result.interrupt = std::current_exception();
    }
  } catch (const std::exception& error) {
    result.error = error.what();
  }
  return result;
}

void set_compile_function(void* callable) {
  replace(compile_function, callable);
}

void set_observer(void* callable) {
  replace(observer, callable);
  observed = callable != nullptr;
}

bool has_observer() {
  return observed;
}

void show_run(
    const std::string& trace_text, const std::vector<at::Tensor>& inputs,
    const std::vector<c10::Scalar>& scalars, const std::vector<at::Tensor>& outputs) {
  py::gil_scoped_acquire gil;
  if (observer == nullptr) {
    return;
  }
  try {
    py::list numbers;
    for (const auto& scalar : scalars) {
      if (scalar.isFloatingPoint()) {
        numbers.append(scalar.toDouble());
      } else {
        numbers.append(scalar.toLong());
      }
    }
    const py::handle function(observer);
    function(trace_text, inputs, numbers, outputs);
  } catch (const std::exception& error) {
    TORCH_WARN("the observer of ftm programs failed: ", error.what());
  }
}

} // namespace ftm
