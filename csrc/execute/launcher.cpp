#include "execute/launcher.h"

#include "graph/recorder_lock.h"
#include "memory/memory_pool.h"
#include "support/counters.h"
#include "support/event_log.h"
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
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

namespace ftm {
namespace {

struct Launcher {
  // While it is held, no other lock is acquired, except the memory pool's before a fork, and never
  // the GIL.
  std::mutex mutex;
  // Pointers, since a forked child replaces both and must not destroy the parent's.
  std::condition_variable* changed = new std::condition_variable;
  std::thread* thread = new std::thread;
  std::deque<JobPtr> jobs; // in launch order; one of them may be running
  FailurePtr unseen_failure;
  bool running = false; // the thread exists
  bool stopping = false;
  bool abandons_tasks = false; // stopping, and tasks in flight are not waited for any more
  bool at_end = true; // the thread has stopped, or was never started
  bool given_up = false; // the last wait for results ended with an exception (of a signal handler)
  void (*resume)() = nullptr; // resumes stalled jobs; null if none are stalled
  int waiting = 0; // number of threads that wait for jobs, or for jobs to be started
  bool orphaned = false; // this is a forked child, without the thread
  size_t max_in_flight = 3;
  uint64_t enqueued = 0; // number of jobs ever enqueued
};

Launcher& launcher() {
  static auto* instance = new Launcher;
  return *instance;
}

bool is_pending(const BufferPtr& buffer) {
  return buffer && buffer->state() == Buffer::State::pending;
}

// Calls `visit` with each buffer that must be computed before the job runs.
template <typename Visit>
void visit_needed(const Job& job, Visit visit) {
  for (const auto& input : job.inputs) {
    visit(input.buffer);
  }
  for (const auto& old : job.old_values) {
    visit(old.other);
  }
}

// Suspends all jobs that have not run, until one of their results is waited for.
void suspend_jobs(Launcher& l) {
  for (const auto& job : l.jobs) {
    job->suspended = !job->in_flight;
  }
  interrupt_machine();
}

// Returns the first job that is neither suspended nor in flight, or null.
JobPtr first_to_run(const Launcher& l) {
  const auto found = std::find_if(l.jobs.begin(), l.jobs.end(), [](const JobPtr& job) {
    return !job->suspended && !job->in_flight;
  });
  return found == l.jobs.end() ? nullptr : *found;
}

bool has_task_in_flight(const Launcher& l) {
  return std::any_of(
      l.jobs.begin(), l.jobs.end(), [](const JobPtr& job) { return job->in_flight; });
}

// Whether a task in flight computes this value.
bool is_in_flight(const Launcher& l, const BufferPtr& value) {
  return std::any_of(l.jobs.begin(), l.jobs.end(), [&](const JobPtr& job) {
    return job->in_flight &&
           std::find(job->outputs.begin(), job->outputs.end(), value) != job->outputs.end();
  });
}

// Whether a job must wait for a suspended one: it needs its result, or both are tasks, which keep
// their order. (An input that is pending belongs to a suspended job or to a task in flight, since
// all earlier jobs have run.)
bool is_behind_suspended(const Launcher& l, const Job& job) {
  bool needs_suspended = false;
  visit_needed(job, [&](const BufferPtr& buffer) {
    needs_suspended = needs_suspended || (is_pending(buffer) && !is_in_flight(l, buffer));
  });
  return needs_suspended ||
         (job.task && std::any_of(l.jobs.begin(), l.jobs.end(), [&](const JobPtr& other) {
            return other->task && other->suspended && other->number < job.number;
          }));
}

// Returns the job to run next, or null. Jobs run in launch order. A job that depends on a suspended
// job is suspended too.
JobPtr next_job(Launcher& l) {
  while (auto job = first_to_run(l)) {
    if (!job->started) {
      return nullptr;
    }
    if (!is_behind_suspended(l, *job)) {
      bool is_computed = true;
      visit_needed(
          *job, [&](const BufferPtr& buffer) { is_computed = is_computed && !is_pending(buffer); });
      return is_computed ? job : nullptr;
    }
    job->suspended = true;
  }
  return nullptr;
}

// Resumes the jobs that are wanted, and the suspended jobs on which they depend, all of which
// precede them. `is_wanted` is called with each job.
template <typename IsWanted>
void demand(Launcher& l, IsWanted is_wanted) {
  if (std::none_of(
          l.jobs.begin(), l.jobs.end(), [](const JobPtr& job) { return job->suspended; })) {
    return;
  }
  std::unordered_set<const Buffer*> values;
  bool needs_task = false; // and so all earlier tasks, which keep their order
  for (auto at = l.jobs.rbegin(); at != l.jobs.rend(); ++at) {
    Job& job = **at;
    const bool is_needed = std::any_of(
        job.outputs.begin(), job.outputs.end(),
        [&](const BufferPtr& output) { return values.count(output.get()) != 0; });
    if (!is_needed && !(job.task && needs_task) && !is_wanted(job)) {
      continue;
    }
    needs_task = needs_task || job.task != nullptr;
    if (std::exchange(job.suspended, false)) {
      l.changed->notify_all();
    }
    visit_needed(job, [&](const BufferPtr& needed) {
      if (is_pending(needed)) {
        values.insert(needed.get());
      }
    });
  }
}

// Resumes the job that computes this value.
void demand_value(Launcher& l, const BufferPtr& wanted) {
  demand(l, [&](const Job& job) {
    return std::find(job.outputs.begin(), job.outputs.end(), wanted) != job.outputs.end();
  });
}

void demand_all(Launcher& l) {
  for (const auto& job : l.jobs) {
    job->suspended = false;
  }
  l.changed->notify_all();
}

// Removes a suspended program whose results have no other references. Returns null if there is
// none.
JobPtr remove_unused(Launcher& l) {
  const auto found = std::find_if(l.jobs.begin(), l.jobs.end(), [](const JobPtr& job) {
    return job->suspended && job->started && !job->task && job.use_count() == 1 &&
           std::all_of(job->outputs.begin(), job->outputs.end(), [](const BufferPtr& output) {
             return output.use_count() == 1;
           });
  });
  if (found == l.jobs.end()) {
    return nullptr;
  }
  JobPtr unused = std::move(*found);
  l.jobs.erase(found);
  return unused;
}

// Called without the launcher's mutex, since destroying a job destroys its buffers.
void drop_unused(Launcher& l) {
  JobPtr unused;
  do {
    unused.reset();
    const std::lock_guard<std::mutex> guard(l.mutex);
    unused = remove_unused(l);
  } while (unused);
}

void launch_jobs() {
  pthread_setname_np(pthread_self(), "ftm-launcher");
  auto& l = launcher();
  std::unique_lock<std::mutex> lock(l.mutex);
  while (true) {
    JobPtr job;
    l.changed->wait(lock, [&] {
      job = next_job(l);
      return job || (l.stopping && (l.abandons_tasks || !has_task_in_flight(l)));
    });
    if (!job) {
      l.at_end = true; // stopping, and no job is left to run
      l.changed->notify_all();
      return;
    }
    if (job->task) {
      job->in_flight = true;
      lock.unlock();
      if (auto failure = begin_task(job)) {
        finish_task(job, std::move(failure));
      }
      job.reset();
      lock.lock();
      continue;
    }
    allow_runs();
    lock.unlock();
    const int64_t begin = run_log_is_open() ? nanoseconds_now() : 0;
    const auto outcome = run_job(*job);
    if (begin != 0 && !outcome.interrupted) {
      add_run(
          {job->number, job->program, std::move(job->origin), begin, nanoseconds_now(),
           std::move(job->spans)});
    }
    if (outcome.interrupted) {
      lock.lock();
      continue; // the job runs again when it is resumed
    }
    job->inputs.clear(); // frees inputs that only this job referenced
    job->old_values.clear();
    lock.lock();
    for (size_t i = 0; i < outcome.valid.size(); ++i) {
      outcome.valid[i] ? job->outputs[i]->set_ready()
                       : job->outputs[i]->set_failed(outcome.failure);
    }
    if (outcome.failure && !outcome.failure->seen && !l.unseen_failure) {
      l.unseen_failure = outcome.failure;
    }
    l.jobs.erase(std::find(l.jobs.begin(), l.jobs.end(), job));
    l.changed->notify_all();
    lock.unlock();
    job->outputs.clear();
    lock.lock();
  }
}

// Returns and clears the first failure that was not raised yet; null if there is none. Called with
// the launcher's mutex.
FailurePtr take_unseen(Launcher& l) {
  FailurePtr failure = std::move(l.unseen_failure);
  l.unseen_failure.reset();
  return failure && !failure->seen ? failure : nullptr;
}

constexpr auto kTick = std::chrono::milliseconds(50);

thread_local bool is_compile_thread = false;

void give_up(Launcher& l) {
  l.given_up = true;
  if (l.waiting == 0) {
    suspend_jobs(l);
  }
}

// Waits, without the GIL, until ready(), and resumes stalled jobs. demand() marks the jobs that
// must run; it is called repeatedly, since dependencies become known only when a job is started. An
// exception of a signal handler (KeyboardInterrupt), or of resuming, ends the wait and interrupts
// the current run, which can be repeated; the exception is passed on.
template <typename Demand, typename Ready>
void wait_until(Launcher& l, std::unique_lock<std::mutex>& lock, Demand demand, Ready ready) {
  const bool counts = !is_compile_thread;
  l.waiting += counts;
  const auto is_resumable = [&] { return counts && l.resume != nullptr; };
  while (true) {
    if (l.waiting != 0) {
      demand();
    }
    l.changed->wait_for(lock, kTick, [&] { return ready() || is_resumable(); });
    if (ready()) {
      break;
    }
    const auto resume = is_resumable() ? std::exchange(l.resume, nullptr) : nullptr;
    lock.unlock(); // signal handlers are the user's code and may use the device
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

// Whether a thread that started this job may go on, since fewer jobs than the limit are in flight.
// The compile thread never waits for a job that it must itself start: the first job may not be
// started yet because another thread is compiling it and this one must go on first.
bool has_room_behind(const Launcher& l, const Job& job) {
  const auto is_ahead = [&](const JobPtr& other) {
    return !other->suspended && !other->task && other->number <= job.number;
  };
  if (static_cast<size_t>(std::count_if(l.jobs.begin(), l.jobs.end(), is_ahead)) <=
      l.max_in_flight) {
    return true;
  }
  const auto first = first_to_run(l);
  return is_compile_thread && first && !first->started;
}

// Adds the user's line to a host event. Needs no lock.
void log_line(LoggedScope& scope) {
  if (scope.is_logged()) {
    const auto line = python_line(this_thread());
    scope.set_line(line ? *line : "");
  }
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
    // The thread exists only in the parent, and the condition variable has it as a waiter. The
    // child leaks both and starts with new ones.
    l.thread = new std::thread;
    l.changed = new std::condition_variable;
  }
  after_fork_in_parent();
}

} // namespace

void enqueue(const JobPtr& job) {
  auto& l = launcher();
  drop_unused(l);
  std::unique_lock<std::mutex> lock(l.mutex);
  check_fork(l);
  if (!l.running) {
    l.changed->wait(
        lock, [&] { return l.at_end; }); // a detached thread may still run the first job
    l.stopping = l.at_end = l.abandons_tasks = false;
    *l.thread = std::thread(launch_jobs);
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
  l.changed->notify_all();
  wait_until(l, lock, [] {}, [&] { return has_room_behind(l, *job); });
}

void abandon(const JobPtr& job, FailurePtr failure) noexcept {
  auto& l = launcher();
  const std::lock_guard<std::mutex> guard(l.mutex);
  if (!job->started) {
    job->abandoned = std::move(failure);
    job->started = true;
    l.changed->notify_all();
  }
}

void start_task(const JobPtr& job) {
  auto& l = launcher();
  const std::lock_guard<std::mutex> guard(l.mutex);
  job->started = true;
  l.changed->notify_all();
}

void finish_task(const JobPtr& job, FailurePtr failure) {
  auto& l = launcher();
  std::vector<Input> inputs; // freed after the unlock, as the outputs
  std::vector<BufferPtr> outputs;
  const std::lock_guard<std::mutex> guard(l.mutex);
  inputs.swap(job->inputs);
  outputs.swap(job->outputs);
  for (const auto& output : outputs) {
    failure ? output->set_failed(failure) : output->set_ready();
  }
  if (failure && !failure->seen && !l.unseen_failure) {
    l.unseen_failure = failure;
  }
  job->failure = std::move(failure);
  job->in_flight = false;
  job->ended = true;
  const auto found = std::find(l.jobs.begin(), l.jobs.end(), job);
  if (found != l.jobs.end()) {
    l.jobs.erase(found);
  }
  l.changed->notify_all();
}

bool has_ended(const Job& job) {
  const std::lock_guard<std::mutex> guard(launcher().mutex);
  return job.ended;
}

bool wait_for_task(const JobPtr& job, std::chrono::milliseconds limit) {
  park_if_shutting_down();
  const GilRelease unlocked;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  auto& l = launcher();
  std::unique_lock<std::mutex> lock(l.mutex);
  const auto is_late = [&] {
    return limit.count() != 0 && std::chrono::steady_clock::now() >= deadline;
  };
  l.given_up = false;
  wait_until(
      l, lock, [&] { demand(l, [&](const Job& other) { return &other == job.get(); }); },
      [&] { return job->ended || is_late(); });
  return job->ended;
}

void stall(void (*resume)()) {
  auto& l = launcher();
  const std::lock_guard<std::mutex> guard(l.mutex);
  l.resume = resume;
  l.changed->notify_all();
}

void set_compile_thread() {
  is_compile_thread = true;
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
  std::optional<LoggedScope> logged;
  if (event_log_is_open() && buffer->state() == Buffer::State::pending) {
    logged.emplace(HostEventKind::wait, "wait for a value");
    log_line(*logged);
  }
  auto& l = launcher();
  FailurePtr failure;
  {
    // Acquire the GIL only after the launcher's mutex is released: a thread that holds the GIL may
    // wait for that mutex.
    std::optional<GilRelease> unlocked;
    const bool waits = buffer->state() == Buffer::State::pending;
    if (waits) {
      unlocked.emplace();
    }
    std::unique_lock<std::mutex> lock(l.mutex);
    if (waits) {
      check_fork(l);
      l.given_up = false;
      wait_until(l, lock, [&] { demand_value(l, buffer); }, [&] { return !is_pending(buffer); });
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
  LoggedScope logged(HostEventKind::wait, "wait for all programs");
  log_line(logged);
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

void stop_launcher(std::chrono::milliseconds patience) {
  GilRelease unlocked;
  auto& l = launcher();
  std::unique_lock<std::mutex> lock(l.mutex);
  if (!l.running) {
    return;
  }
  l.stopping = true;
  if (l.given_up) { // the results of the remaining jobs are not waited for
    suspend_jobs(l);
  }
  l.changed->notify_all();
  if (l.given_up || !l.changed->wait_for(lock, patience, [&] { return l.at_end; })) {
    l.abandons_tasks = true;
    l.changed->notify_all();
  }
  if (l.given_up && !l.changed->wait_for(lock, kTick, [&] { return l.at_end; })) {
    // A run that has overwritten its inputs continues to its end; the process does not wait.
    l.thread->detach();
  } else {
    lock.unlock();
    l.thread->join();
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
