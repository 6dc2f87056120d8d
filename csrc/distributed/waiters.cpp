#include "distributed/waiters.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace ftm {
namespace {

struct Waiters {
  std::mutex mutex; // acquired alone
  std::condition_variable changed;
  std::deque<std::function<void()>> calls;
  size_t idle = 0;
};

// Never freed: the threads run until the process ends.
Waiters& waiters() {
  static auto* instance = new Waiters;
  return *instance;
}

void run_calls() {
  pthread_setname_np(pthread_self(), "ftm-waiter");
  auto& w = waiters();
  std::unique_lock<std::mutex> lock(w.mutex);
  while (true) {
    ++w.idle;
    w.changed.wait(lock, [&] { return !w.calls.empty(); });
    --w.idle;
    auto call = std::move(w.calls.front());
    w.calls.pop_front();
    lock.unlock();
    call();
    call = nullptr;
    lock.lock();
  }
}

} // namespace

void run_on_waiter(std::function<void()> wait) {
  auto& w = waiters();
  const std::lock_guard<std::mutex> guard(w.mutex);
  w.calls.push_back(std::move(wait));
  if (w.calls.size() > w.idle) {
    std::thread(run_calls).detach();
  }
  w.changed.notify_one();
}

} // namespace ftm
