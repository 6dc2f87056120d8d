#include "partition/trace_frequency.h"

#include <unordered_map>

namespace ftm {
namespace {

constexpr int kOften = 32; // launches
constexpr size_t kCounted = 4096; // traces

std::unordered_map<Hash128, int, Hash128Hasher>& launches_of_traces() {
  static auto* instance = new std::unordered_map<Hash128, int, Hash128Hasher>;
  return *instance;
}

} // namespace

bool is_frequent(const Hash128& trace) {
  auto& launches = launches_of_traces();
  if (launches.size() >= kCounted) {
    launches.clear();
  }
  return ++launches[trace] > kOften;
}

void forget_frequencies() {
  launches_of_traces().clear();
}

} // namespace ftm
