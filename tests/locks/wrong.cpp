// A library that breaks both rules of watch.cpp.
#include <mutex>

extern "C" int PyGILState_Ensure();
extern "C" void PyGILState_Release(int state);

namespace {
std::mutex first, second;
} // namespace

extern "C" void take_both(bool forwards) {
  const std::lock_guard<std::mutex> outer(forwards ? first : second);
  const std::lock_guard<std::mutex> inner(forwards ? second : first);
}

extern "C" void take_python_s() {
  const std::lock_guard<std::mutex> guard(first);
  PyGILState_Release(PyGILState_Ensure());
}
