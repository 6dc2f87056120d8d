#include "support/python_location.h"

#include "support/gil.h"

#include <torch/csrc/utils/pybind.h>

#include <unordered_map>

namespace py = pybind11;

namespace ftm {
namespace {

// What is known of a piece of code. To find a line in its table costs more than all the rest, and
// loops come again.
struct Code {
  bool is_library;
  std::unordered_map<int, PythonLine> lines; // by instruction
};

constexpr size_t kMostLines = 4096; // a program that makes code as it runs must not grow for that

struct Lines { // guarded by the GIL
  std::vector<std::string> library_folders;
  std::unordered_map<PyCodeObject*, Code>
      by_code; // holds the objects, so that no other gets the address
  size_t count = 0;
};

Lines& lines() {
  static auto* instance = new Lines;
  return *instance;
}

void forget_lines() {
  lines().count = 0;
  for (const auto& [code, known] : std::exchange(lines().by_code, {})) {
    Py_DECREF(code);
  }
}

std::string file_of(PyCodeObject* code) {
  return py::handle(reinterpret_cast<PyObject*>(code)).attr("co_filename").cast<std::string>();
}

// Of PyTorch, of this package, or made by PyTorch from a graph.
bool is_library(PyCodeObject* code) {
  const std::string file = file_of(code);
  for (const auto& folder : lines().library_folders) {
    if (file.compare(0, folder.size(), folder) == 0) {
      return true;
    }
  }
  return file.rfind("<eval_with_key>", 0) == 0;
}

PythonLine line_of(PyFrameObject* frame) {
  const auto owned =
      py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  auto* code = reinterpret_cast<PyCodeObject*>(owned.ptr());
  auto found = lines().by_code.find(code);
  if (found == lines().by_code.end()) {
    const bool library = is_library(code);
    if (++lines().count > kMostLines) {
      forget_lines();
    }
    Py_INCREF(code);
    found = lines().by_code.emplace(code, Code{library, {}}).first;
  }
  Code& known = found->second;
  if (known.is_library) {
    return nullptr;
  }
  PythonLine& line = known.lines[PyFrame_GetLasti(frame)];
  if (!line) {
    ++lines().count;
    line = std::make_shared<const std::string>(
        file_of(code) + ":" + std::to_string(PyFrame_GetLineNumber(frame)));
  }
  return line;
}

PythonLine innermost_line(PyThreadState* thread) {
  auto* frame = PyThreadState_GetFrame(thread);
  PythonLine line;
  while (frame != nullptr && !(line = line_of(frame))) {
    auto* outer = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = outer;
  }
  Py_XDECREF(frame);
  return line;
}

PyThreadState* state_of(ThreadIdent thread) {
  auto* state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
  while (state != nullptr && state->thread_id != thread) {
    state = PyThreadState_Next(state);
  }
  return state;
}

} // namespace

ThreadIdent this_thread() {
  return PyThread_get_thread_ident();
}

PythonLine python_line(ThreadIdent asking) {
  if (!Py_IsInitialized()) {
    return nullptr;
  }
  const GilAcquire gil;
  PythonLine line = innermost_line(PyThreadState_Get());
  if (!line && asking != this_thread()) {
    if (auto* state = state_of(asking)) {
      line = innermost_line(state);
    }
  }
  return line;
}

void set_library_folders(std::vector<std::string> folders) {
  forget_lines();
  lines().library_folders = std::move(folders);
}

} // namespace ftm
