#include "partition/frequent_traces.h"

#include <unordered_map>

namespace ftm {
namespace {

constexpr int kOften = 32; // launches of a trace
constexpr size_t kMaxTraces = 4096;

std::unordered_map<Hash128, int, Hash128Hasher>& launch_counts() {
  static auto* instance = new std::unordered_map<Hash128, int, Hash128Hasher>;
  return *instance;
}

} // namespace

bool is_frequent(const Hash128& trace) {
  auto& launches = launch_counts();
  if (launches.size() >= kMaxTraces) {
    launches.clear();
  }
  return ++launches[trace] > kOften;
}

void clear_frequencies() {
  launch_counts().clear();
}

} // namespace ftm
