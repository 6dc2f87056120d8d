#include "compile/compile_queue.h"

#include "support/shutdown.h"
#include "support/gil.h"
#include "compile/compile_units.h"
#include "execute/launcher.h"
#include "support/runtime.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace ftm {
namespace {

// Tasks that may wait before `build_later` blocks; each keeps its inputs alive.
constexpr size_t kMaxWaiting = 3;
constexpr auto kPollInterval = std::chrono::milliseconds(50);

// Units to build, and the outcome, for the thread that waits for it.
struct CompileTask {
  std::vector<LaunchUnit> units;
  BuildOutcome outcome; // without `not_built`
  bool ended = false;
};
using CompileTaskPtr = std::shared_ptr<CompileTask>;

struct CompileQueue {
  std::mutex mutex; // acquired alone, except before a fork
  std::condition_variable changed;
  std::deque<CompileTaskPtr> waiting;
  bool busy = false; // with a task that is no longer in `waiting`
  // Units whose compilation was interrupted, and the units after them. They keep their place in the
  // launch order and are built when a thread next waits for a result.
  std::vector<LaunchUnit> suspended;
  std::thread thread;
  bool running = false; // the thread exists
  bool stopping = false;
};

// A forked child has neither the compile thread nor the parent's programs. It leaks the parent's
// queue and starts with a new one.
struct CurrentQueue {
  static constexpr LockRank kLockRank = LockRank::compiler;
  CompileQueue* queue = new CompileQueue;
  void lock() { queue->mutex.lock(); }
  void unlock() { queue->mutex.unlock(); }
  void after_fork() {
    queue = new CompileQueue;
    lock(); // as the parent's is
  }
};

CompileQueue& compile_queue() {
  return *part<CurrentQueue>().queue;
}

void suspend(std::vector<LaunchUnit>& units) {
  if (units.empty()) {
    return;
  }
  auto& b = compile_queue();
  {
    const std::lock_guard<std::mutex> guard(b.mutex);
    b.suspended.insert(
        b.suspended.end(), std::make_move_iterator(units.begin()),
        std::make_move_iterator(units.end()));
    units.clear();
  }
  b.changed.notify_all();
  stall(&resume_building);
}

void run_tasks() {
  pthread_setname_np(pthread_self(), "ftm-builder");
  set_compile_thread();
  auto& b = compile_queue();
  while (true) {
    // Destroyed without the lock: its error may be a Python exception, whose destructor takes the
    // GIL.
    CompileTaskPtr task;
    {
      std::unique_lock<std::mutex> lock(b.mutex);
      b.changed.wait(lock, [&] { return b.stopping || !b.waiting.empty(); });
      if (b.waiting.empty()) {
        return;
      }
      task = std::move(b.waiting.front());
      b.waiting.pop_front();
      b.busy = true;
    }
    auto outcome = build_and_start(std::move(task->units));
    // The error is raised in the thread that waits for the task or for a failed result, or when the
    // suspended units are built again.
    suspend(outcome.not_built);
    const std::lock_guard<std::mutex> guard(b.mutex);
    task->outcome = std::move(outcome);
    task->ended = true;
    b.busy = false;
    b.changed.notify_all();
  }
}

// Waits, without the GIL, until ready(), which is called with the queue's mutex. Builds suspended
// units, for which the compile thread may be waiting. Throws the exception of that, or of a signal
// handler.
template <typename Ready>
void wait_for_queue(CompileQueue& b, Ready ready) {
  const GilRelease unlocked;
  {
    const std::lock_guard<std::mutex> guard(b.mutex);
    if (ready()) {
      return;
    }
  }
  Waiting waiting; // the compile thread may wait for room in the launcher's queue
  std::unique_lock<std::mutex> lock(b.mutex);
  while (true) {
    b.changed.wait_for(lock, kPollInterval, [&] { return ready() || !b.suspended.empty(); });
    if (ready()) {
      return;
    }
    const bool has_suspended = !b.suspended.empty();
    lock.unlock();
    try {
      has_suspended ? resume_building() : handle_signals();
    } catch (...) {
      waiting.give_up();
      throw;
    }
    lock.lock();
  }
}

void throw_error(const BuildOutcome& outcome) {
  if (outcome.error) {
    if (outcome.failure) {
      outcome.failure->seen = true;
    }
    std::rethrow_exception(outcome.error);
  }
}

void build_here(std::vector<LaunchUnit> units) {
  auto outcome = build_and_start(std::move(units));
  suspend(outcome.not_built);
  throw_error(outcome);
}

CompileTaskPtr submit(std::vector<LaunchUnit> units) {
  auto task = std::make_shared<CompileTask>();
  task->units = std::move(units);
  auto& b = compile_queue();
  const std::lock_guard<std::mutex> guard(b.mutex);
  if (!b.running) {
    b.stopping = false;
    b.thread = std::thread(run_tasks);
    b.running = true;
  }
  b.waiting.push_back(task);
  b.changed.notify_all();
  return task;
}

} // namespace

void build_later(std::vector<LaunchUnit> units) {
  submit(std::move(units));
  auto& b = compile_queue();
  wait_for_queue(b, [&] { return b.waiting.size() <= kMaxWaiting; });
}

void build_and_wait(std::vector<LaunchUnit> units) {
  if (!runs_signal_handlers() || is_shutting_down()) {
    build_now(std::move(units));
    return;
  }
  const CompileTaskPtr task = submit(std::move(units));
  wait_for_queue(compile_queue(), [&] { return task->ended; });
  throw_error(task->outcome);
}

void build_now(std::vector<LaunchUnit> units) {
  if (!are_built(units)) {
    auto& b = compile_queue();
    try {
      wait_for_queue(b, [&] { return !b.busy && b.waiting.empty(); });
    } catch (...) {
      suspend(units);
      throw;
    }
  }
  build_here(std::move(units));
}

void resume_building() {
  std::vector<LaunchUnit> units;
  {
    auto& b = compile_queue();
    const std::lock_guard<std::mutex> guard(b.mutex);
    units.swap(b.suspended);
  }
  if (!units.empty()) {
    build_here(std::move(units));
  }
}

void stop_compile_thread() {
  const bool interrupted = was_interrupted();
  auto& b = compile_queue();
  {
    const std::lock_guard<std::mutex> guard(b.mutex);
    if (!b.running) {
      return;
    }
    b.running = false;
    b.stopping = true;
    if (interrupted) {
      b.waiting.clear();
    }
    b.changed.notify_all();
  }
  bool idle = false;
  try {
    wait_for_queue(b, [&] {
      idle = !b.busy && b.waiting.empty();
      // No thread waits for the results of suspended units.
      return idle || interrupted || !b.suspended.empty();
    });
  } catch (...) {
    b.thread.detach();
    throw;
  }
  if (idle) {
    b.thread.join();
  } else {
    b.thread.detach(); // it waits for the compiler or for suspended units; the process does not
                       // wait for it
  }
}

} // namespace ftm
