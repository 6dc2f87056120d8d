#include "graph/source_location.h"

#include <atomic>
#include <utility>

namespace ftm {
namespace {

std::atomic<bool> all_calls{false};
thread_local PythonLine noted;

} // namespace

void set_locations(bool all) {
  all_calls = all;
}

bool notes_all_locations() {
  return all_calls.load(std::memory_order_relaxed);
}

void note_location(PythonLine line) {
  noted = std::move(line);
}

const PythonLine& noted_location() {
  return noted;
}

} // namespace ftm
