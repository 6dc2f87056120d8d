#include "run/compiler.h"

#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace ftm {
namespace {

PyObject* compile_function = nullptr; // owned; guarded by the GIL

} // namespace

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
  PyObject* old = compile_function;
  compile_function = static_cast<PyObject*>(callable);
  Py_XINCREF(compile_function);
  Py_XDECREF(old);
}

} // namespace ftm
