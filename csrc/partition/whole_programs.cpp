#include "partition/whole_programs.h"

#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace ftm {
namespace {

constexpr size_t kMaxTraces = 4096;

// Milliseconds, measured on two cores with AVX-512: a step of 101 small launches took 18 ms longer
// than one program, one of 947 launches 128 ms; a GPT of 12 layers compiles in 0.4 s.
constexpr double kLaunchCost = 0.15; // of each piece
constexpr double kCompileCost = 0.7; // of each call
constexpr double kCompileBase = 50; // of each program
constexpr double kWorthwhile = 0.1; // share of the compilation's cost
constexpr size_t kMinLaunches = 3;

struct Launches {
  size_t count = 0;
  bool is_wanted = false;
};

// Guarded by the recorder's lock.
std::unordered_map<Hash128, Launches, Hash128Hasher>& launches_of_traces() {
  static auto* instance = new std::unordered_map<Hash128, Launches, Hash128Hasher>;
  return *instance;
}

struct CompiledTraces {
  std::mutex mutex; // no other lock is acquired while it is held
  std::unordered_set<Hash128, Hash128Hasher> traces;
};

CompiledTraces& compiled_traces() {
  static auto* instance = new CompiledTraces;
  return *instance;
}

} // namespace

bool is_whole_wanted(const Hash128& trace, size_t pieces, size_t calls) {
  auto& traces = launches_of_traces();
  if (traces.size() >= kMaxTraces) {
    traces.clear();
  }
  auto& launches = traces[trace];
  ++launches.count;
  const double cost = kLaunchCost * static_cast<double>(launches.count * pieces);
  const double limit = kWorthwhile * (kCompileBase + kCompileCost * static_cast<double>(calls));
  if (launches.is_wanted || launches.count < kMinLaunches || cost < limit) {
    return false;
  }
  launches.is_wanted = true;
  return true;
}

void set_whole_compiled(const Hash128& trace) {
  auto& compiled = compiled_traces();
  const std::lock_guard<std::mutex> guard(compiled.mutex);
  if (compiled.traces.size() >= kMaxTraces) {
    compiled.traces.clear();
  }
  compiled.traces.insert(trace);
}

bool is_whole_compiled(const Hash128& trace) {
  auto& compiled = compiled_traces();
  const std::lock_guard<std::mutex> guard(compiled.mutex);
  return compiled.traces.count(trace) != 0;
}

void clear_whole_programs() {
  launches_of_traces().clear();
  auto& compiled = compiled_traces();
  const std::lock_guard<std::mutex> guard(compiled.mutex);
  compiled.traces.clear();
}

} // namespace ftm
