#include "compile/compile_queue.h"

#include "support/shutdown.h"
#include "support/gil.h"
#include "compile/build_units.h"
#include "execute/launcher.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

namespace ftm {
namespace {

// Sets of cuts that may wait to be built: each holds its inputs.
constexpr size_t kMostWaiting = 3;
constexpr auto kBuilderTick = std::chrono::milliseconds(50);

// Cuts that are to be built, and how that ended, for who waits for it.
struct CompileTask {
  std::vector<LaunchUnit> cuts;
  BuildOutcome building; // but for what is left
  bool ended = false;
};
using OrderPtr = std::shared_ptr<CompileTask>;

struct Builder {
  std::mutex mutex; // taken alone
  std::condition_variable changed;
  std::deque<OrderPtr> waiting;
  bool busy = false; // with what was the first of them
  // Kept from being built. They have their place in the order of runs, and so have those behind
  // them: they are built when somebody next asks for a result.
  std::vector<LaunchUnit> suspended;
  std::thread thread;
  bool running = false; // the thread exists
  bool stopping = false;
};

Builder& builder() {
  static auto* instance = new Builder;
  return *instance;
}

void suspend(std::vector<LaunchUnit>& cuts) {
  if (cuts.empty()) {
    return;
  }
  auto& b = builder();
  {
    const std::lock_guard<std::mutex> guard(b.mutex);
    b.suspended.insert(
        b.suspended.end(), std::make_move_iterator(cuts.begin()),
        std::make_move_iterator(cuts.end()));
    cuts.clear();
  }
  b.changed.notify_all();
  stall(&resume_building);
}

void build_waiting() {
  pthread_setname_np(pthread_self(), "ftm-builder");
  set_compile_thread();
  auto& b = builder();
  while (true) {
    OrderPtr order; // its error, perhaps one of Python's, is let go without the lock
    {
      std::unique_lock<std::mutex> lock(b.mutex);
      b.changed.wait(lock, [&] { return b.stopping || !b.waiting.empty(); });
      if (b.waiting.empty()) {
        return;
      }
      order = std::move(b.waiting.front());
      b.waiting.pop_front();
      b.busy = true;
    }
    auto building = build_and_start(std::move(order->cuts));
    // Its error is thrown to who waits: for this, for results that have failed, or when the rest is
    // built again.
    suspend(building.left);
    const std::lock_guard<std::mutex> guard(b.mutex);
    order->building = std::move(building);
    order->ended = true;
    b.busy = false;
    b.changed.notify_all();
  }
}

// Waits, without the GIL, until ready(); resumes what is suspended, for which the builder's thread
// may be waiting. Throws what that throws, or a signal's handler.
template <typename Ready>
void wait_for_builder(Builder& b, Ready ready) {
  const GilRelease unlocked;
  {
    const std::lock_guard<std::mutex> guard(b.mutex);
    if (ready()) {
      return;
    }
  }
  Waiting waiting; // the builder may wait for room
  std::unique_lock<std::mutex> lock(b.mutex);
  while (true) {
    b.changed.wait_for(lock, kBuilderTick, [&] { return ready() || !b.suspended.empty(); });
    if (ready()) {
      return;
    }
    const bool resumes = !b.suspended.empty();
    lock.unlock();
    try {
      resumes ? resume_building() : handle_signals();
    } catch (...) {
      waiting.give_up();
      throw;
    }
    lock.lock();
  }
}

// A forked child has no such thread, and none of the parent's programs: it starts with a fresh
// builder, without touching what that of the parent stands for.
void install_builder_fork_handlers() {
  static const int installed = pthread_atfork(
      [] { builder().mutex.lock(); }, [] { builder().mutex.unlock(); },
      [] { new (&builder()) Builder; });
  TORCH_CHECK(installed == 0, "pthread_atfork failed");
}

void throw_error(const BuildOutcome& building) {
  if (building.error) {
    if (building.failure) {
      building.failure->seen = true;
    }
    std::rethrow_exception(building.error);
  }
}

void build_here(std::vector<LaunchUnit> cuts) {
  auto building = build_and_start(std::move(cuts));
  suspend(building.left);
  throw_error(building);
}

OrderPtr give(std::vector<LaunchUnit> cuts) {
  install_builder_fork_handlers();
  auto order = std::make_shared<CompileTask>();
  order->cuts = std::move(cuts);
  auto& b = builder();
  const std::lock_guard<std::mutex> guard(b.mutex);
  if (!b.running) {
    b.stopping = false;
    b.thread = std::thread(build_waiting);
    b.running = true;
  }
  b.waiting.push_back(order);
  b.changed.notify_all();
  return order;
}

} // namespace

void build_later(std::vector<LaunchUnit> cuts) {
  give(std::move(cuts));
  auto& b = builder();
  wait_for_builder(b, [&] { return b.waiting.size() <= kMostWaiting; });
}

void build_and_wait(std::vector<LaunchUnit> cuts) {
  if (!runs_signal_handlers() || is_shutting_down()) {
    build_now(std::move(cuts));
    return;
  }
  const OrderPtr order = give(std::move(cuts));
  wait_for_builder(builder(), [&] { return order->ended; });
  throw_error(order->building);
}

void build_now(std::vector<LaunchUnit> cuts) {
  if (!are_built(cuts)) {
    auto& b = builder();
    try {
      wait_for_builder(b, [&] { return !b.busy && b.waiting.empty(); });
    } catch (...) {
      suspend(cuts);
      throw;
    }
  }
  build_here(std::move(cuts));
}

void resume_building() {
  std::vector<LaunchUnit> cuts;
  {
    auto& b = builder();
    const std::lock_guard<std::mutex> guard(b.mutex);
    cuts.swap(b.suspended);
  }
  build_here(std::move(cuts));
}

void stop_builder() {
  const bool leaves = was_interrupted();
  auto& b = builder();
  {
    const std::lock_guard<std::mutex> guard(b.mutex);
    if (!b.running) {
      return;
    }
    b.running = false;
    b.stopping = true;
    if (leaves) {
      b.waiting.clear();
    }
    b.changed.notify_all();
  }
  bool idle = false;
  try {
    wait_for_builder(b, [&] {
      idle = !b.busy && b.waiting.empty();
      return idle || leaves || !b.suspended.empty(); // what is suspended nobody has asked for
    });
  } catch (...) {
    b.thread.detach();
    throw;
  }
  if (idle) {
    b.thread.join();
  } else {
    b.thread.detach(); // it waits for the compiler, or for who resumes, and nobody for it
  }
}

} // namespace ftm
