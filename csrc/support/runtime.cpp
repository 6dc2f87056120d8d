#include "support/runtime.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

namespace ftm {

Runtime& Runtime::instance() {
  static auto* runtime = new Runtime; // threads may use it until the process ends
  return *runtime;
}

Runtime::Runtime() {
  const int failed = pthread_atfork(
      [] { instance().lock_all(); }, [] { instance().unlock_all(/*is_child=*/false); },
      [] { instance().unlock_all(/*is_child=*/true); });
  TORCH_CHECK(failed == 0, "pthread_atfork failed");
}

void Runtime::reset() {
  std::vector<std::function<void()>> resets;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    resets = resets_;
  }
  for (const auto& reset : resets) {
    reset();
  }
}

void Runtime::lock_all() {
  std::vector<Forked> forked;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    forked = forked_;
  }
  std::stable_sort(forked.begin(), forked.end(), [](const Forked& a, const Forked& b) {
    return a.rank < b.rank;
  });
  for (const auto& each : forked) {
    each.lock();
  }
  mutex_.lock();
  locked_ = std::move(forked);
}

void Runtime::unlock_all(bool is_child) {
  const auto locked = std::exchange(locked_, {});
  mutex_.unlock();
  for (const auto& each : locked) {
    if (is_child && each.after_fork) {
      each.after_fork();
    }
  }
  std::for_each(locked.rbegin(), locked.rend(), [](const Forked& each) { each.unlock(); });
}

} // namespace ftm
