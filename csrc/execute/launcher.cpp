#include "execute/launcher.h"

#include "graph/recorder_lock.h"
#include "memory/memory_pool.h"
#include "support/counters.h"
#include "support/shutdown.h"
#include "support/gil.h"
#include "execute/job.h"
#include "execute/run_log.h"

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
#include <unordered_set>
#include <utility>
#include <vector>

namespace ftm {
namespace {

struct Launcher {
  std::mutex
      mutex; // no other lock is taken under it, but the memory's before a fork, and never Python's
  std::condition_variable changed;
  std::deque<JobPtr> jobs; // one of them may be running
  FailurePtr unseen_failure;
  std::thread thread;
  bool running = false; // the thread exists
  bool stopping = false;
  bool at_end = true; // the thread, if it ever was, has stopped
  bool given_up = false; // an exception, as of a signal's handler, ended the last wait for results
  void (*resume)() = nullptr; // of jobs that are stalled; null: none are
  int waiting = 0; // threads that wait for jobs, or for what starts them
  bool orphaned = false; // this is a forked child: the thread stayed behind
  size_t max_in_flight = 3;
  uint64_t enqueued = 0; // how many jobs ever were
};

Launcher& launcher() {
  static auto* instance = new Launcher;
  return *instance;
}

bool is_pending(const BufferPtr& buffer) {
  return buffer && buffer->state() == Buffer::State::pending;
}

// Calls `visit` with each value that the job needs before it runs.
template <typename Visit>
void visit_needed(const Job& job, Visit visit) {
  for (const auto& input : job.inputs) {
    visit(input.buffer);
  }
  for (const auto& before : job.before) {
    visit(before.other);
  }
}

// All that have not run wait until a result is asked for.
void suspend_jobs(Launcher& l) {
  for (const auto& job : l.jobs) {
    job->suspended = true;
  }
  interrupt_machine();
}

JobPtr first_not_suspended(const Launcher& l) {
  const auto found =
      std::find_if(l.jobs.begin(), l.jobs.end(), [](const JobPtr& job) { return !job->suspended; });
  return found == l.jobs.end() ? nullptr : *found;
}

// The job that runs next, or null. Jobs run in order. One that needs a result of a suspended job is
// suspended as well: all jobs before it that are not have run.
JobPtr next_job(Launcher& l) {
  while (const auto job = first_not_suspended(l)) {
    if (!job->started) {
      return nullptr;
    }
    bool needs_suspended = false;
    visit_needed(*job, [&](const BufferPtr& buffer) {
      needs_suspended = needs_suspended || is_pending(buffer);
    });
    if (!needs_suspended) {
      return job;
    }
    job->suspended = true;
  }
  return nullptr;
}

// Lets the job that computes this value run, and the jobs whose results it needs: these come before
// it.
void demand(Launcher& l, const BufferPtr& wanted) {
  if (std::none_of(
          l.jobs.begin(), l.jobs.end(), [](const JobPtr& job) { return job->suspended; })) {
    return;
  }
  std::unordered_set<const Buffer*> values{wanted.get()};
  for (auto at = l.jobs.rbegin(); at != l.jobs.rend(); ++at) {
    Job& job = **at;
    if (std::none_of(job.outputs.begin(), job.outputs.end(), [&](const BufferPtr& output) {
          return values.count(output.get()) != 0;
        })) {
      continue;
    }
    if (std::exchange(job.suspended, false)) {
      l.changed.notify_all();
    }
    visit_needed(job, [&](const BufferPtr& needed) {
      if (is_pending(needed)) {
        values.insert(needed.get());
      }
    });
  }
}

void demand_all(Launcher& l) {
  for (const auto& job : l.jobs) {
    job->suspended = false;
  }
  l.changed.notify_all();
}

// Takes a suspended job out whose results nobody can read any more; null if there is none.
JobPtr take_unread(Launcher& l) {
  const auto found = std::find_if(l.jobs.begin(), l.jobs.end(), [](const JobPtr& job) {
    return job->suspended && job->started && job.use_count() == 1 &&
           std::all_of(job->outputs.begin(), job->outputs.end(), [](const BufferPtr& output) {
             return output.use_count() == 1;
           });
  });
  if (found == l.jobs.end()) {
    return nullptr;
  }
  JobPtr unread = std::move(*found);
  l.jobs.erase(found);
  return unread;
}

// Without the launcher's lock: what a job held goes with it.
void drop_unread(Launcher& l) {
  JobPtr unread;
  do {
    unread.reset();
    const std::lock_guard<std::mutex> guard(l.mutex);
    unread = take_unread(l);
  } while (unread);
}

void launch_jobs() {
  pthread_setname_np(pthread_self(), "ftm-launcher");
  auto& l = launcher();
  std::unique_lock<std::mutex> lock(l.mutex);
  while (true) {
    JobPtr job;
    l.changed.wait(lock, [&] {
      job = next_job(l);
      return job || l.stopping;
    });
    if (!job) {
      l.at_end = true; // stopping, and nothing left to run
      l.changed.notify_all();
      return;
    }
    allow_runs();
    lock.unlock();
    const auto outcome = [&] {
      const LoggedRun noted(job->program ? job->program->trace().calls.size() : 0);
      return run_job(*job);
    }();
    if (outcome.interrupted) {
      lock.lock();
      continue; // it runs again when it is no longer suspended
    }
    job->inputs.clear(); // frees what the program was the last to need
    job->before.clear();
    lock.lock();
    for (size_t i = 0; i < outcome.whole.size(); ++i) {
      outcome.whole[i] ? job->outputs[i]->set_ready()
                       : job->outputs[i]->set_failed(outcome.failure);
    }
    if (outcome.failure && !outcome.failure->seen && !l.unseen_failure) {
      l.unseen_failure = outcome.failure;
    }
    l.jobs.erase(std::find(l.jobs.begin(), l.jobs.end(), job));
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

void give_up(Launcher& l) {
  l.given_up = true;
  if (l.waiting == 0) {
    suspend_jobs(l);
  }
}

// Waits until ready(), without the GIL, and resumes what is stalled. ask() demands what is waited
// for: again and again, because what a job needs is known when it is started. An exception of a
// signal handler, such as KeyboardInterrupt, ends the waiting, and the run, of which nothing is
// lost; it is thrown on, and so is what resuming throws.
template <typename Ask, typename Ready>
void wait_until(Launcher& l, std::unique_lock<std::mutex>& lock, Ask ask, Ready ready) {
  const bool counts = !works_for_others;
  l.waiting += counts;
  const auto is_resumable = [&] { return counts && l.resume != nullptr; };
  while (true) {
    if (l.waiting != 0) {
      ask();
    }
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

// Whether a thread that started this job may go on to the next. Who works for others never waits
// for a job that it may itself be in the way of: the front one may be one that another thread
// builds, when this one has built what it was given.
bool has_room_behind(const Launcher& l, const Job& job) {
  const auto is_ahead = [&](const JobPtr& other) {
    return !other->suspended && other->number <= job.number;
  };
  if (static_cast<size_t>(std::count_if(l.jobs.begin(), l.jobs.end(), is_ahead)) <=
      l.max_in_flight) {
    return true;
  }
  return works_for_others && !first_not_suspended(l)->started;
}

void check_fork(const Launcher& l) {
  TORCH_CHECK(
      !l.orphaned,
      "Cannot re-initialize device ftm in forked subprocess. To use ftm with multiprocessing, ",
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
    // The thread exists in the parent only, and its waiting is recorded in the condition variable:
    // the child starts with fresh ones, without touching what these stand for.
    new (&l.thread) std::thread;
    new (&l.changed) std::condition_variable;
  }
  after_fork_in_parent();
}

} // namespace

void enqueue(const JobPtr& job) {
  auto& l = launcher();
  drop_unread(l);
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
  GilRelease unlocked;
  auto& l = launcher();
  std::unique_lock<std::mutex> lock(l.mutex);
  job->program = std::move(program);
  job->started = true;
  l.changed.notify_all();
  wait_until(l, lock, [] {}, [&] { return has_room_behind(l, *job); });
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
  ++l.waiting;
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
  park_if_shutting_down();
  auto& l = launcher();
  FailurePtr failure;
  {
    // Python's lock is taken again last, when the launcher's is let go: who has it may wait for
    // that.
    std::optional<GilRelease> unlocked;
    const bool waits = buffer->state() == Buffer::State::pending;
    if (waits) {
      unlocked.emplace();
    }
    std::unique_lock<std::mutex> lock(l.mutex);
    if (waits) {
      check_fork(l);
      l.given_up = false;
      wait_until(l, lock, [&] { demand(l, buffer); }, [&] { return !is_pending(buffer); });
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
    GilRelease unlocked;
    std::unique_lock<std::mutex> lock(l.mutex);
    if (!l.orphaned) {
      l.given_up = false;
      wait_until(l, lock, [&] { demand_all(l); }, [&] { return l.jobs.empty(); });
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
  GilRelease unlocked;
  auto& l = launcher();
  std::unique_lock<std::mutex> lock(l.mutex);
  if (!l.running) {
    return;
  }
  l.stopping = true;
  if (l.given_up) { // nobody asks for what is left
    suspend_jobs(l);
  }
  l.changed.notify_all();
  if (l.given_up && !l.changed.wait_for(lock, kTick, [&] { return l.at_end; })) {
    l.thread.detach(); // a run that has written over its inputs goes on to its end, which the
                       // process does not wait for
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
  static const int installed =
      pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  TORCH_CHECK(installed == 0, "pthread_atfork failed");
}

} // namespace ftm
