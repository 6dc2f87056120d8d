#include "run/launcher.h"

#include "graph/lock.h"
#include "memory/pool.h"
#include "process/counters.h"
#include "process/ending.h"
#include "process/python.h"
#include "run/job.h"
#include "run/run_log.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

namespace ftm {
namespace {

struct Launcher {
  std::mutex mutex; // no other lock is taken under it, but the memory's before a fork, and never Python's
  std::condition_variable changed;
  std::deque<JobPtr> jobs; // the front one may be running
  FailurePtr unseen_failure;
  std::thread thread;
  bool running = false; // the thread exists
  bool stopping = false;
  bool at_end = true; // the thread, if it ever was, has stopped
  bool paused = false; // the user interrupted the front one: it runs again when somebody waits for it
  bool given_up = false; // an exception, as of a signal's handler, ended the last wait for results
  void (*resume)() = nullptr; // of jobs that are stalled; null: none are
  int waiting = 0; // threads that wait for jobs, or for what starts them
  bool orphaned = false; // this is a forked child: the thread stayed behind
  size_t max_in_flight = 3;
  uint64_t enqueued = 0; // how many jobs ever were
  uint64_t ended = 0;
};

Launcher& launcher() {
  static auto* instance = new Launcher;
  return *instance;
}

void launch_jobs() {
  pthread_setname_np(pthread_self(), "ftm-launcher");
  auto& l = launcher();
  std::unique_lock<std::mutex> lock(l.mutex);
  while (true) {
    const auto runnable = [&] { return !l.paused && !l.jobs.empty() && l.jobs.front()->started; };
    l.changed.wait(lock, [&] { return l.stopping || runnable(); });
    if (!runnable()) {
      l.at_end = true; // stopping, and nothing left to run
      l.changed.notify_all();
      return;
    }
    const JobPtr job = l.jobs.front();
    lock.unlock();
    const auto outcome = [&] {
      const NotedRun noted(job->program ? job->program->trace().calls.size() : 0);
      return run_job(*job);
    }();
    if (outcome.interrupted) {
      lock.lock();
      l.paused = l.waiting == 0 || l.stopping;
      continue;
    }
    job->inputs.clear(); // frees what the program was the last to need
    job->before.clear();
    lock.lock();
    for (size_t i = 0; i < outcome.whole.size(); ++i) {
      outcome.whole[i] ? job->outputs[i]->set_ready() : job->outputs[i]->set_failed(outcome.failure);
    }
    if (outcome.failure && !outcome.failure->seen && !l.unseen_failure) {
      l.unseen_failure = outcome.failure;
    }
    l.jobs.pop_front();
    ++l.ended;
    l.changed.notify_all();
    lock.unlock();
    job->outputs.clear();
    lock.lock();
  }
}

// The first failure that nobody has seen, taken; under the launcher's lock.
FailurePtr take_unseen(Launcher& l) {
  FailurePtr failure = std::move(l.unseen_failure);
  l.unseen_failure.reset();
  return failure && !failure->seen ? failure : nullptr;
}

constexpr auto kTick = std::chrono::milliseconds(50);

thread_local bool works_for_others = false;

void begin_waiting(Launcher& l) {
  ++l.waiting;
  if (std::exchange(l.paused, false)) {
    l.changed.notify_all();
  }
}

void give_up(Launcher& l) {
  l.given_up = true;
  interrupt_machine();
}

// Waits until ready(), without the GIL, and resumes what is stalled. An exception of a signal handler, such as KeyboardInterrupt, ends
// the waiting, and the run, of which nothing is lost; it is thrown on, and so is what resuming throws.
template <typename Ready>
void wait_until(Launcher& l, std::unique_lock<std::mutex>& lock, Ready ready) {
  const bool counts = !works_for_others;
  if (counts) {
    begin_waiting(l);
  }
  const auto is_resumable = [&] { return counts && l.resume != nullptr; };
  while (true) {
    l.changed.wait_for(lock, kTick, [&] { return ready() || is_resumable(); });
    if (ready()) {
      break;
    }
    const auto resume = is_resumable() ? std::exchange(l.resume, nullptr) : nullptr;
    lock.unlock(); // handlers are the user's code: it may use the device
    try {
      resume != nullptr ? resume() : handle_signals();
    } catch (...) {
      lock.lock();
      l.waiting -= counts;
      give_up(l);
      throw;
    }
    lock.lock();
  }
  l.waiting -= counts;
}

// Whether a thread that started this job may go on to the next. Who works for others never waits for a job that it may itself be in the
// way of: the front one may be one that another thread builds, when this one has built what it was given.
bool has_room_behind(const Launcher& l, const Job& job) {
  const bool few = job.number - std::min(job.number, l.ended) <= l.max_in_flight;
  return few || (works_for_others && !l.jobs.front()->started);
}

void check_fork(const Launcher& l) {
  TORCH_CHECK(
      !l.orphaned, "Cannot re-initialize device ftm in forked subprocess. To use ftm with multiprocessing, ",
      "you must use the 'spawn' start method, or keep to CPU tensors in the subprocess");
}

void before_fork() {
  recorder_mutex().lock();
  launcher().mutex.lock();
  lock_memory();
}

void after_fork_in_parent() {
  unlock_memory();
  launcher().mutex.unlock();
  recorder_mutex().unlock();
}

void after_fork_in_child() {
  auto& l = launcher();
  if (l.running) {
    l.orphaned = true;
    l.running = false;
    // The thread exists in the parent only, and its waiting is recorded in the condition variable: the child
    // starts with fresh ones, without touching what these stand for.
    new (&l.thread) std::thread;
    new (&l.changed) std::condition_variable;
  }
  after_fork_in_parent();
}

} // namespace

void enqueue(const JobPtr& job) {
  auto& l = launcher();
  std::unique_lock<std::mutex> lock(l.mutex);
  check_fork(l);
  if (!l.running) {
    l.changed.wait(lock, [&] { return l.at_end; }); // a thread that was left runs the front job
    l.stopping = l.at_end = false;
    l.thread = std::thread(launch_jobs);
    l.running = true;
  }
  l.jobs.push_back(job);
  job->number = ++l.enqueued;
}

void start(const JobPtr& job, ProgramPtr program) {
  static auto& executions = counter("executions");
  executions.fetch_add(1);
  WithoutGil unlocked;
  auto& l = launcher();
  std::unique_lock<std::mutex> lock(l.mutex);
  job->program = std::move(program);
  job->started = true;
  l.changed.notify_all();
  wait_until(l, lock, [&] { return has_room_behind(l, *job); });
}

void abandon(const JobPtr& job, FailurePtr failure) noexcept {
  auto& l = launcher();
  const std::lock_guard<std::mutex> guard(l.mutex);
  if (!job->started) {
    job->abandoned = std::move(failure);
    job->started = true;
    l.changed.notify_all();
  }
}

void stall(void (*resume)()) {
  auto& l = launcher();
  const std::lock_guard<std::mutex> guard(l.mutex);
  l.resume = resume;
  l.changed.notify_all();
}

void work_for_others() {
  works_for_others = true;
}

Waiting::Waiting() {
  auto& l = launcher();
  const std::lock_guard<std::mutex> guard(l.mutex);
  begin_waiting(l);
}

Waiting::~Waiting() {
  auto& l = launcher();
  const std::lock_guard<std::mutex> guard(l.mutex);
  l.waiting -= counts_;
}

void Waiting::give_up() {
  auto& l = launcher();
  const std::lock_guard<std::mutex> guard(l.mutex);
  l.waiting -= std::exchange(counts_, false);
  ftm::give_up(l);
}

void wait_for(const BufferPtr& buffer) {
  rest_if_ending();
  auto& l = launcher();
  FailurePtr failure;
  {
    // Python's lock is taken again last, when the launcher's is let go: who has it may wait for that.
    std::optional<WithoutGil> unlocked;
    const bool waits = buffer->state() == Buffer::State::pending;
    if (waits) {
      unlocked.emplace();
    }
    std::unique_lock<std::mutex> lock(l.mutex);
    if (waits) {
      check_fork(l);
      l.given_up = false;
      wait_until(l, lock, [&] { return buffer->state() != Buffer::State::pending; });
    }
    failure = take_unseen(l);
  }
  if (buffer->state() == Buffer::State::failed) {
    failure = buffer->failure();
  }
  if (failure) {
    throw_failure(*failure);
  }
}

void wait_for_all() {
  auto& l = launcher();
  FailurePtr failure;
  {
    WithoutGil unlocked;
    std::unique_lock<std::mutex> lock(l.mutex);
    if (!l.orphaned) {
      l.given_up = false;
      wait_until(l, lock, [&] { return l.jobs.empty(); });
    }
    failure = take_unseen(l);
  }
  if (failure) {
    throw_failure(*failure);
  }
}

void set_max_in_flight(int jobs) {
  TORCH_CHECK_VALUE(jobs >= 1, "at least one program must be allowed in flight, got ", jobs);
  auto& l = launcher();
  std::lock_guard<std::mutex> guard(l.mutex);
  l.max_in_flight = static_cast<size_t>(jobs);
}

void stop_launcher() {
  WithoutGil unlocked;
  auto& l = launcher();
  std::unique_lock<std::mutex> lock(l.mutex);
  if (!l.running) {
    return;
  }
  l.stopping = true;
  if (l.given_up) { // nobody asks for what is left
    l.paused = true;
    interrupt_machine();
  }
  l.changed.notify_all();
  if (l.given_up && !l.changed.wait_for(lock, kTick, [&] { return l.at_end; })) {
    l.thread.detach(); // a run that has written over its inputs goes on to its end, which the process does not wait for
  } else {
    lock.unlock();
    l.thread.join();
    lock.lock();
  }
  l.running = false;
}

bool was_interrupted() {
  auto& l = launcher();
  const std::lock_guard<std::mutex> guard(l.mutex);
  return l.given_up;
}

void check_not_forked() {
  auto& l = launcher();
  const std::lock_guard<std::mutex> guard(l.mutex);
  check_fork(l);
}

bool in_bad_fork() {
  auto& l = launcher();
  std::lock_guard<std::mutex> guard(l.mutex);
  return l.orphaned;
}

void install_fork_handlers() {
  static const int installed = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  TORCH_CHECK(installed == 0, "pthread_atfork failed");
}

} // namespace ftm
