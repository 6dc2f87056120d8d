#include "program/compile_client.h"

#include "program/recorded_trace.h"
#include "support/shutdown.h"
#include "support/gil.h"

#include <cxxabi.h>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace ftm {
namespace {

PyObject* compile_function = nullptr; // owned; guarded by the GIL

// Returns hint and least value of each symbol, and (index, argument, element, polynomial) of each
// symbolic number.
py::tuple symbols_data(const SymbolicSizes& sizes) {
  py::list symbols, numbers;
  for (const auto& symbol : sizes.symbols) {
    symbols.append(py::make_tuple(symbol.hint, symbol.least));
  }
  for (const auto& number : sizes.numbers) {
    numbers.append(
        py::make_tuple(number.index, number.argument, number.element, number.polynomial));
  }
  return py::make_tuple(std::move(symbols), std::move(numbers));
}

py::tuple as_tuple(const CompileRequest& request, const std::string& rejection) {
  return py::make_tuple(
      recorded_trace(request.trace), py::cast(request.locations), symbols_data(request.symbols),
      py::bool_(request.trains), py::bool_(request.any_size), py::int_(request.trace_id),
      py::str(rejection));
}

// Calls a Python function. No py::object is alive during the call: if the interpreter is finalized
// meanwhile, the unwinding would release it without the GIL.
py::object call(PyObject* function, py::tuple arguments) {
  PyObject* passed = arguments.release().ptr();
  PyObject* result = PyObject_CallObject(function, passed);
  Py_DECREF(passed);
  if (result == nullptr) {
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(result);
}

} // namespace

FTM_CATCHES_FORCED_UNWIND CompileResult
compile_in_python(const CompileRequest& request, const std::string& rejection) {
  CompileResult result;
  const GilAcquire gil;
  if (compile_function == nullptr) {
    result.error = "no compiler is set";
    return result;
  }
  try {
    const py::object answer = call(compile_function, as_tuple(request, rejection));
    if (py::isinstance<py::tuple>(answer)) {
      const auto executable = answer.cast<py::tuple>();
      result.image = executable[0].cast<py::bytes>();
      result.varying_dims = executable[1].cast<std::vector<uint64_t>>();
      result.error = result.image.empty() ? "the compiler returned an empty image" : "";
    } else {
      result.error = answer.cast<std::string>();
    }
  } catch (const py::error_already_set&) {
    // Not formatted here: that would run Python code, and so signal handlers.
    result.interrupt = std::current_exception();
  } catch (const std::exception& error) {
    result.error = error.what();
  } catch (const abi::__forced_unwind&) {
    park_thread(); // the interpreter was finalized while this thread compiled
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
