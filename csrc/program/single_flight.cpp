#include "program/single_flight.h"

#include "support/gil.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <unordered_set>

namespace ftm {
namespace {

struct Builds {
  std::mutex mutex; // acquired alone
  std::condition_variable ended;
  std::unordered_set<Hash128, Hash128Hasher> hashes;
};

Builds& builds() {
  static auto* instance = new Builds;
  return *instance;
}

constexpr auto kSignalTick = std::chrono::milliseconds(50);

} // namespace

SingleFlight::SingleFlight(const Hash128& hash) : hash_(hash) {
  const GilRelease unlocked;
  auto& b = builds();
  std::unique_lock<std::mutex> lock(b.mutex);
  while (!b.ended.wait_for(lock, kSignalTick, [&] { return b.hashes.count(hash) == 0; })) {
    lock.unlock();
    handle_signals();
    lock.lock();
  }
  b.hashes.insert(hash);
}

SingleFlight::~SingleFlight() {
  auto& b = builds();
  const std::lock_guard<std::mutex> guard(b.mutex);
  b.hashes.erase(hash_);
  b.ended.notify_all();
}

} // namespace ftm
