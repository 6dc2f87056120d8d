#include "torch/module_calls.h"

#include "graph/source_location.h"
#include "support/runtime.h"

#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/pythoncapi_compat.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

namespace py = pybind11;

namespace ftm {
namespace {

using Path = std::shared_ptr<const std::string>;

struct ModulePaths { // guarded by the GIL
  struct Entry {
    py::weakref module; // another module may get the address of one that was deleted
    Path path;
  };
  std::unordered_map<PyObject*, Entry> by_module;
};

thread_local Path innermost; // path of the module whose call runs; null outside of modules

std::string class_name(const py::handle& module) {
  return py::type::of(module).attr("__name__").cast<std::string>();
}

void set_path(const py::handle& module, std::string path) {
  part<ModulePaths>().by_module.insert_or_assign(
      module.ptr(), ModulePaths::Entry{
                        py::weakref(module), std::make_shared<const std::string>(std::move(path))});
}

bool refers_to(const py::weakref& reference, PyObject* module) {
  PyObject* found = nullptr;
  PyWeakref_GetRef(reference.ptr(), &found);
  Py_XDECREF(found);
  return found == module;
}

// Returns the path of a module. At the first call of an outermost one, names all modules in it.
Path path_of(PyObject* module) {
  const auto& paths = part<ModulePaths>().by_module;
  const auto found = paths.find(module);
  if (found != paths.end() && refers_to(found->second.module, module)) {
    return found->second.path;
  }
  const py::handle self(module);
  if (innermost) { // made or attached after the outermost module was called first
    set_path(self, *innermost + "." + class_name(self));
    return paths.at(module).path;
  }
  set_path(self, class_name(self));
  for (const auto& item : self.attr("named_modules")()) {
    const auto [name, child] = item.cast<std::pair<std::string, py::object>>();
    if (!name.empty()) {
      set_path(child, name);
    }
  }
  return paths.at(module).path;
}

class ModuleScope {
 public:
  explicit ModuleScope(Path path) : outer_(std::exchange(innermost, std::move(path))) {
    push_module(*innermost);
  }
  ~ModuleScope() {
    pop_module();
    innermost = std::move(outer_);
  }
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  Path outer_;
};

// Calls a module, as `Module.__call__` does.
PyObject* call_module(PyObject* module, PyObject* arguments, PyObject* keywords) {
  static PyObject* const name = PyUnicode_InternFromString("_call_impl");
  try {
    const ModuleScope scope(path_of(module));
    const auto call = py::reinterpret_steal<py::object>(PyObject_GetAttr(module, name));
    return call ? PyObject_Call(call.ptr(), arguments, keywords) : nullptr;
  } catch (py::error_already_set& error) {
    error.restore();
    return nullptr;
  }
}

// `Module.__call__` calls the attribute of this name instead of `_call_impl`, if it is not None.
// `Module.compile` sets it for one module. Here it is set for the class.
constexpr const char* kAttribute = "_compiled_call_impl";

PyMethodDef method = {
    kAttribute, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call_module)),
    METH_VARARGS | METH_KEYWORDS, "Call the module, and note its path for profiles."};

} // namespace

void follow_modules(bool on) {
  const py::object type = py::module_::import("torch.nn").attr("Module");
  py::object call = py::none();
  if (on) {
    call = py::reinterpret_steal<py::object>(
        PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), &method));
  }
  type.attr(kAttribute) = call;
  part<ModulePaths>().by_module.clear();
}

} // namespace ftm
