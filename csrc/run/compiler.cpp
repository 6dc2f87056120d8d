#include "run/compiler.h"

#include "process/ending.h"
#include "process/python.h"

#include <cxxabi.h>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace ftm {
namespace {

PyObject* compile_function = nullptr; // owned; guarded by the GIL

} // namespace

FTM_CATCHES_FORCED_UNWIND CompileResult compile_in_python(
    const std::string& trace_text, const std::string& refused, const std::vector<std::string>& locations,
    const Likely& likely) {
  CompileResult result;
  const WithGil gil;
  if (compile_function == nullptr) {
    result.error = "no compiler is set";
    return result;
  }
  try {
    const py::object answer = py::handle(compile_function)(
        py::str(trace_text), py::str(refused), py::cast(locations), py::cast(likely.varies), py::bool_(likely.trains),
        py::bool_(likely.any_size));
    if (py::isinstance<py::tuple>(answer)) {
      const auto made = answer.cast<py::tuple>();
      result.image = made[0].cast<py::bytes>();
      result.varies = made[1].cast<std::vector<uint64_t>>();
      result.error = result.image.empty() ? "the compiler returned an empty image" : "";
    } else {
      result.error = answer.cast<std::string>();
    }
  } catch (const py::error_already_set&) {
    result.interrupt = std::current_exception(); // nothing of it is looked at: that would run signals' handlers again
  } catch (const std::exception& error) {
    result.error = error.what();
  } catch (const abi::__forced_unwind&) {
    rest(); // the interpreter ended while this thread compiled
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
