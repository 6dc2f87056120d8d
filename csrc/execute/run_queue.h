// The run queue: jobs in launch order, and which of them runs next. The launcher's thread takes
// jobs from it, other threads append jobs and wait. All functions are called with the queue's
// mutex, except `finish_in_flight` and `drop_unused`.
#pragma once

#include "execute/job.h"
#include "support/runtime.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace ftm {

struct RunQueue {
  static constexpr LockRank kLockRank = LockRank::launcher;
  // While it is held, no other lock is acquired, except the memory pool's before a fork, and never
  // the GIL.
  std::mutex mutex;
  // Pointers, since a forked child replaces both and must not destroy the parent's.
  std::condition_variable* changed = new std::condition_variable;
  std::thread* thread = new std::thread;
  std::deque<JobPtr> jobs; // in launch order; one of them may be running
  FailurePtr unseen_failure;
  bool busy = false; // a program runs, on the launcher's thread or on one that launched it
  bool running = false; // the thread exists
  bool stopping = false;
  bool abandons_tasks = false; // stopping, and tasks in flight are not waited for any more
  bool at_end = true; // the thread has stopped, or was never started
  bool given_up = false; // the last wait for results ended with an exception (of a signal handler)
  void (*resume)() = nullptr; // resumes stalled jobs; null if none are stalled
  int waiting = 0; // number of threads that wait for jobs, or for jobs to be started
  bool orphaned = false; // this is a forked child of a process that has the thread or the machine
  size_t max_in_flight = 3;
  uint64_t enqueued = 0; // number of jobs ever enqueued
  // The program that was launched last, until a thread waits, and when its launch returned.
  std::weak_ptr<Program> launched;
  std::chrono::steady_clock::time_point launched_at;

  void lock() { mutex.lock(); }
  void unlock() { mutex.unlock(); }
  // The thread exists only in the parent, and the condition variable has it as a waiter. The child
  // leaks both and starts with new ones.
  void after_fork();
};

RunQueue& run_queue();

// Adds to the number of waiting threads. While none waits, one records, and runs leave it a
// processor: if the operating system suspends a thread of the machine, others wait for it.
void count_waiting(RunQueue& q, int change);

// Suspends all jobs that have not run, until one of their results is waited for.
void suspend_jobs(RunQueue& q);
// Returns the first job that is neither suspended nor in flight, or null.
JobPtr first_to_run(const RunQueue& q);
bool has_task_in_flight(const RunQueue& q);
// Returns the job to run next, or null, as while a program runs. Jobs run in launch order. A job
// that depends on a suspended job is suspended too.
JobPtr next_job(RunQueue& q);
// Resumes the jobs for which `is_wanted` returns true, and the suspended jobs on which they depend.
void demand(RunQueue& q, const std::function<bool(const Job&)>& is_wanted);
// Resumes the job that computes this value.
void demand_value(RunQueue& q, const BufferPtr& wanted);
void demand_all(RunQueue& q);
// Ends a job in flight: its outputs are computed, or have failed. Called without the mutex, on any
// thread.
void finish_in_flight(RunQueue& q, const JobPtr& job, FailurePtr failure);
// Drops suspended programs whose results have no other references. Called without the mutex, since
// destroying a job destroys its buffers.
void drop_unused(RunQueue& q);

// Whether a value is not computed yet.
bool is_pending(const BufferPtr& buffer);

} // namespace ftm
