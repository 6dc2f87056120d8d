#include "execute/launcher.h"

#include "support/counters.h"
#include "support/event_log.h"
#include "support/shutdown.h"
#include "support/gil.h"
#include "execute/run_program.h"
#include "execute/run_queue.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace ftm {
namespace {

void launch_jobs() {
  pthread_setname_np(pthread_self(), "ftm-launcher");
  auto& q = run_queue();
  std::unique_lock<std::mutex> lock(q.mutex);
  while (true) {
    JobPtr job;
    q.changed->wait(lock, [&] {
      job = next_job(q);
      return job || (q.stopping && !q.busy && (q.abandons_tasks || !has_task_in_flight(q)));
    });
    if (!job) {
      q.at_end = true; // stopping, and no job is left to run
      q.changed->notify_all();
      return;
    }
    if (!job->task) {
      run_program(q, lock, job);
      continue;
    }
    job->in_flight = true;
    lock.unlock();
    if (auto failure = begin_task(job)) {
      finish_task(job, std::move(failure));
    }
    job.reset();
    lock.lock();
  }
}

// Returns and clears the first failure that was not raised yet; null if there is none. Called with
// the launcher's mutex.
FailurePtr take_unseen(RunQueue& q) {
  FailurePtr failure = std::move(q.unseen_failure);
  q.unseen_failure.reset();
  return failure && !failure->seen ? failure : nullptr;
}

constexpr auto kTick = std::chrono::milliseconds(50);

thread_local bool is_compile_thread = false;

void give_up(RunQueue& q) {
  q.given_up = true;
  if (q.waiting == 0) {
    suspend_jobs(q);
  }
}

// Waits, without the GIL, until ready(), and resumes stalled jobs. demand() marks the jobs that
// must run; it is called repeatedly, since dependencies become known only when a job is started. An
// exception of a signal handler (KeyboardInterrupt), or of resuming, ends the wait and interrupts
// the current run, which can be repeated; the exception is passed on.
template <typename Demand, typename Ready>
void wait_until(RunQueue& q, std::unique_lock<std::mutex>& lock, Demand demand, Ready ready) {
  const int counts = is_compile_thread ? 0 : 1;
  count_waiting(q, counts);
  const auto is_resumable = [&] { return counts != 0 && q.resume != nullptr; };
  while (true) {
    if (q.waiting != 0) {
      demand();
    }
    q.changed->wait_for(lock, kTick, [&] { return ready() || is_resumable(); });
    if (ready()) {
      break;
    }
    const auto resume = is_resumable() ? std::exchange(q.resume, nullptr) : nullptr;
    lock.unlock(); // signal handlers are the user's code and may use the device
    try {
      resume != nullptr ? resume() : handle_signals();
    } catch (...) {
      lock.lock();
      count_waiting(q, -counts);
      give_up(q);
      throw;
    }
    lock.lock();
  }
  count_waiting(q, -counts);
}

// Whether a thread that started this job may go on, since fewer jobs than the limit are in flight.
// The compile thread never waits for a job that it must itself start: the first job may not be
// started yet because another thread is compiling it and this one must go on first.
bool has_room_behind(const RunQueue& q, const Job& job) {
  const auto is_ahead = [&](const JobPtr& other) {
    return !other->suspended && !other->task && !other->in_flight && other->number <= job.number;
  };
  if (static_cast<size_t>(std::count_if(q.jobs.begin(), q.jobs.end(), is_ahead)) <=
      q.max_in_flight) {
    return true;
  }
  const auto first = first_to_run(q);
  return is_compile_thread && first && !first->started;
}

// Adds the user's line to a host event. Needs no lock.
void log_line(LoggedScope& scope) {
  if (scope.is_logged()) {
    const auto line = python_line(this_thread());
    scope.set_line(line ? *line : "");
  }
}

void check_fork(const RunQueue& q) {
  TORCH_CHECK(
      !q.orphaned,
      "Cannot re-initialize device ftm in forked subprocess. To use ftm with multiprocessing, ",
      "you must use the 'spawn' start method, or keep to CPU tensors in the subprocess");
}

} // namespace

void enqueue(const JobPtr& job) {
  auto& q = run_queue();
  drop_unused(q);
  std::unique_lock<std::mutex> lock(q.mutex);
  check_fork(q);
  if (!q.running) {
    q.changed->wait(
        lock, [&] { return q.at_end; }); // a detached thread may still run the first job
    q.stopping = q.at_end = q.abandons_tasks = false;
    *q.thread = std::thread(launch_jobs);
    q.running = true;
  }
  q.jobs.push_back(job);
  job->number = ++q.enqueued;
}

void start(const JobPtr& job, const ProgramPtr& program) {
  static auto& executions = counter("executions");
  executions.fetch_add(1);
  GilRelease unlocked;
  auto& q = run_queue();
  std::unique_lock<std::mutex> lock(q.mutex);
  job->program = program;
  job->started = true;
  if (runs_at_once(q, job)) {
    leave_a_processor(false); // this thread does not record meanwhile
    run_program(q, lock, job);
    leave_a_processor(q.waiting == 0);
  } else {
    q.changed->notify_all();
    wait_until(q, lock, [] {}, [&] { return has_room_behind(q, *job); });
  }
  note_launched(q, program);
}

void abandon(const JobPtr& job, FailurePtr failure) noexcept {
  auto& q = run_queue();
  const std::lock_guard<std::mutex> guard(q.mutex);
  if (!job->started) {
    job->abandoned = std::move(failure);
    job->started = true;
    q.changed->notify_all();
  }
}

void start_task(const JobPtr& job) {
  auto& q = run_queue();
  const std::lock_guard<std::mutex> guard(q.mutex);
  job->started = true;
  q.changed->notify_all();
}

void finish_task(const JobPtr& job, FailurePtr failure) {
  finish_in_flight(run_queue(), job, std::move(failure));
}

bool has_ended(const Job& job) {
  const std::lock_guard<std::mutex> guard(run_queue().mutex);
  return job.ended;
}

bool wait_for_job(const JobPtr& job, std::chrono::milliseconds limit) {
  park_if_shutting_down();
  const GilRelease unlocked;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  auto& q = run_queue();
  std::unique_lock<std::mutex> lock(q.mutex);
  const auto is_late = [&] {
    return limit.count() != 0 && std::chrono::steady_clock::now() >= deadline;
  };
  q.given_up = false;
  wait_until(
      q, lock, [&] { demand(q, [&](const Job& other) { return &other == job.get(); }); },
      [&] { return job->ended || is_late(); });
  return job->ended;
}

void stall(void (*resume)()) {
  auto& q = run_queue();
  const std::lock_guard<std::mutex> guard(q.mutex);
  q.resume = resume;
  q.changed->notify_all();
}

void set_compile_thread(bool is_one) {
  is_compile_thread = is_one;
}

Waiting::Waiting() {
  auto& q = run_queue();
  const std::lock_guard<std::mutex> guard(q.mutex);
  count_waiting(q, 1);
}

Waiting::~Waiting() {
  auto& q = run_queue();
  const std::lock_guard<std::mutex> guard(q.mutex);
  count_waiting(q, -counts_);
}

void Waiting::give_up() {
  auto& q = run_queue();
  const std::lock_guard<std::mutex> guard(q.mutex);
  count_waiting(q, -std::exchange(counts_, false));
  ftm::give_up(q);
}

void wait_for(const BufferPtr& buffer) {
  park_if_shutting_down();
  std::optional<LoggedScope> logged;
  if (event_log_is_open() && buffer->state() == Buffer::State::pending) {
    logged.emplace(HostEventKind::wait, "wait for a value");
    log_line(*logged);
  }
  auto& q = run_queue();
  FailurePtr failure;
  {
    // Acquire the GIL only after the launcher's mutex is released: a thread that holds the GIL may
    // wait for that mutex.
    std::optional<GilRelease> unlocked;
    const bool waits = buffer->state() == Buffer::State::pending;
    if (waits) {
      unlocked.emplace();
    }
    std::unique_lock<std::mutex> lock(q.mutex);
    note_waiting(q);
    if (waits) {
      check_fork(q);
      q.given_up = false;
      wait_until(q, lock, [&] { demand_value(q, buffer); }, [&] { return !is_pending(buffer); });
    }
    failure = take_unseen(q);
  }
  if (buffer->state() == Buffer::State::failed) {
    failure = buffer->failure();
  }
  if (failure) {
    throw_failure(*failure);
  }
}

void wait_for_all() {
  auto& q = run_queue();
  LoggedScope logged(HostEventKind::wait, "wait for all programs");
  log_line(logged);
  FailurePtr failure;
  {
    GilRelease unlocked;
    std::unique_lock<std::mutex> lock(q.mutex);
    note_waiting(q);
    if (!q.orphaned) {
      q.given_up = false;
      wait_until(q, lock, [&] { demand_all(q); }, [&] { return q.jobs.empty(); });
    }
    failure = take_unseen(q);
  }
  if (failure) {
    throw_failure(*failure);
  }
}

void set_max_in_flight(int jobs) {
  TORCH_CHECK_VALUE(jobs >= 1, "at least one program must be allowed in flight, got ", jobs);
  auto& q = run_queue();
  std::lock_guard<std::mutex> guard(q.mutex);
  q.max_in_flight = static_cast<size_t>(jobs);
}

void stop_launcher(std::chrono::milliseconds patience) {
  GilRelease unlocked;
  auto& q = run_queue();
  std::unique_lock<std::mutex> lock(q.mutex);
  if (!q.running) {
    return;
  }
  q.stopping = true;
  if (q.given_up) { // the results of the remaining jobs are not waited for
    suspend_jobs(q);
  }
  q.changed->notify_all();
  bool is_abandoned = q.given_up;
  if (is_abandoned || !q.changed->wait_for(lock, patience, [&] { return q.at_end; })) {
    q.abandons_tasks = true;
    const auto running = first_to_run(q);
    is_abandoned = is_abandoned || (running && running->communicates());
    q.changed->notify_all();
  }
  if (is_abandoned && !q.changed->wait_for(lock, kTick, [&] { return q.at_end; })) {
    // A run that has overwritten its inputs, or waits for other processes, continues; this process
    // does not wait for it.
    q.thread->detach();
  } else {
    lock.unlock();
    q.thread->join();
    lock.lock();
  }
  q.running = false;
}

bool was_interrupted() {
  auto& q = run_queue();
  const std::lock_guard<std::mutex> guard(q.mutex);
  return q.given_up;
}

void check_not_forked() {
  auto& q = run_queue();
  const std::lock_guard<std::mutex> guard(q.mutex);
  check_fork(q);
}

bool in_bad_fork() {
  auto& q = run_queue();
  std::lock_guard<std::mutex> guard(q.mutex);
  return q.orphaned;
}
} // namespace ftm
