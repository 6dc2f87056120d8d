#include "graph/recorder_lock.h"

#include "support/runtime.h"

namespace ftm {
namespace {

struct RecorderMutex {
  static constexpr LockRank kLockRank = LockRank::recorder;
  std::mutex mutex;
  void lock() { mutex.lock(); }
  void unlock() { mutex.unlock(); }
};

} // namespace

std::mutex& recorder_mutex() {
  return part<RecorderMutex>().mutex;
}

} // namespace ftm
