#include "program/compile_client.h"

#include "support/shutdown.h"
#include "support/gil.h"

#include <cxxabi.h>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace ftm {
namespace {

PyObject* compile_function = nullptr; // owned; guarded by the GIL
PyObject* announce_function = nullptr; // likewise

py::tuple as_tuple(const CompileRequest& request, const std::string& refused = "") {
  return py::make_tuple(
      py::str(request.trace_text), py::cast(request.locations), py::cast(request.likely.varies),
      py::bool_(request.likely.trains), py::bool_(request.likely.any_size), py::int_(request.whole),
      py::str(refused));
}

// Nothing of Python is held by what unwinds if the interpreter ends meanwhile: it could not be let
// go without the lock.
py::object call(PyObject* function, py::tuple arguments) {
  PyObject* passed = arguments.release().ptr();
  PyObject* answer = PyObject_CallObject(function, passed);
  Py_DECREF(passed);
  if (answer == nullptr) {
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(answer);
}

void set_function(PyObject*& function, void* callable) {
  PyObject* old = function;
  function = static_cast<PyObject*>(callable);
  Py_XINCREF(function);
  Py_XDECREF(old);
}

} // namespace

FTM_CATCHES_FORCED_UNWIND CompileResult
compile_in_python(const CompileRequest& request, const std::string& refused) {
  CompileResult result;
  const GilAcquire gil;
  if (compile_function == nullptr) {
    result.error = "no compiler is set";
    return result;
  }
  try {
    const py::object answer = call(compile_function, as_tuple(request, refused));
    if (py::isinstance<py::tuple>(answer)) {
      const auto made = answer.cast<py::tuple>();
      result.image = made[0].cast<py::bytes>();
      result.varies = made[1].cast<std::vector<uint64_t>>();
      result.error = result.image.empty() ? "the compiler returned an empty image" : "";
    } else {
      result.error = answer.cast<std::string>();
    }
  } catch (const py::error_already_set&) {
    result.interrupt = std::current_exception(); // nothing of it is looked at: that would run
                                                 // signals' handlers again
  } catch (const std::exception& error) {
    result.error = error.what();
  } catch (const abi::__forced_unwind&) {
    park_thread(); // the interpreter ended while this thread compiled
  }
  return result;
}

FTM_CATCHES_FORCED_UNWIND void announce_to_python(const std::vector<CompileRequest>& requests) {
  const GilAcquire gil;
  if (announce_function == nullptr) {
    return;
  }
  try {
    py::tuple announced(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      announced[i] = as_tuple(requests[i]);
    }
    call(announce_function, std::move(announced));
  } catch (const std::exception& error) {
    TORCH_WARN("programs are compiled one by one: ", error.what());
  } catch (const abi::__forced_unwind&) {
    park_thread();
  }
}

void set_compile_functions(void* compile, void* announce) {
  set_function(compile_function, compile);
  set_function(announce_function, announce);
}

} // namespace ftm
