#include "partition/whole_programs.h"

#include "support/runtime.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

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
  bool is_compiled = false;
};

struct LaunchedTraces {
  std::mutex mutex; // no other lock is acquired while it is held
  std::unordered_map<Hash128, Launches, Hash128Hasher> by_hash;
  std::atomic<bool> is_deterministic{false};

  void reset() {
    const std::lock_guard<std::mutex> guard(mutex);
    by_hash.clear();
  }
};

} // namespace

bool is_whole_wanted(const Hash128& trace, size_t pieces, size_t calls) {
  auto& traces = part<LaunchedTraces>();
  const std::lock_guard<std::mutex> guard(traces.mutex);
  if (traces.by_hash.size() >= kMaxTraces) {
    traces.by_hash.clear();
  }
  auto& launches = traces.by_hash[trace];
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
  auto& traces = part<LaunchedTraces>();
  const std::lock_guard<std::mutex> guard(traces.mutex);
  traces.by_hash[trace].is_compiled = true;
}

bool is_whole_compiled(const Hash128& trace) {
  auto& traces = part<LaunchedTraces>();
  const std::lock_guard<std::mutex> guard(traces.mutex);
  const auto found = traces.by_hash.find(trace);
  return found != traces.by_hash.end() && found->second.is_compiled;
}

void make_takeover_deterministic() {
  part<LaunchedTraces>().is_deterministic = true;
}

bool is_takeover_deterministic() {
  return part<LaunchedTraces>().is_deterministic;
}

} // namespace ftm
