// The launcher runs launched programs one after the other on its own thread, without Python, while
// the next step is recorded.
//
// Interrupts: if an exception of a signal handler (KeyboardInterrupt) ends a wait, all jobs are
// suspended. A suspended job runs when a thread waits for one of its results; jobs that do not
// depend on it may overtake it.
#pragma once

#include "execute/job.h"

#include <chrono>

namespace ftm {

// Appends a job to the launch order. Its inputs may be pending until `start`. Throws in a process
// that was forked after the device was used.
void enqueue(const JobPtr& job);
// Lets a job run in its turn. The caller must have dropped its references to inputs that may be
// donated. Waits, without the GIL, while too many earlier jobs are in flight; throws the exception
// of a signal handler.
void start(const JobPtr& job, const ProgramPtr& program);
// Replaces `start` for a job that cannot run: its results get their variables' old values, or
// `failure`. Does nothing if the job was started.
void abandon(const JobPtr& job, FailurePtr failure) noexcept;

// Lets a job with a task begin in its turn. Does not wait.
void start_task(const JobPtr& job);
// Ends a job whose task has begun: its outputs are computed, or have failed. Any thread may call
// it.
void finish_task(const JobPtr& job, FailurePtr failure);
// Whether a job has ended.
bool has_ended(const Job& job);
// Waits, without the GIL, until a job has ended, at most for `limit` unless that is 0. Returns
// false if the limit has passed. Throws the exception of a signal handler, but not the job's
// failure.
bool wait_for_job(const JobPtr& job, std::chrono::milliseconds limit);

// Declares that enqueued jobs cannot be started until `resume` is called. A thread that waits for
// jobs calls it. It may throw, and may stall again.
void stall(void (*resume)());
// Sets whether the calling thread is a compile thread, which starts the jobs that other threads
// launched and wait for. It does not resume stalled or interrupted jobs, and waits for room in the
// queue only if all earlier jobs are started.
void set_compile_thread(bool is_one);

// For its lifetime, the calling thread counts as waiting for jobs to be started.
class Waiting {
 public:
  Waiting();
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  // Call it when an exception (of a signal handler) ends the wait: interrupts the current run,
  // which can be repeated, and suspends the jobs.
  void give_up();

 private:
  bool counts_ = true;
};

// Waits, without the GIL, until a value is computed. Throws the error of its program, or the error
// of another program that was not raised yet, or the exception of a signal handler. Must not be
// called under the recorder's lock.
void wait_for(const BufferPtr& buffer);
// Waits for all jobs. Throws an error that was not raised yet, or the exception of a signal
// handler.
void wait_for_all();

// Sets how many started jobs may precede a new one before `start` waits. Throws ValueError if
// below 1.
void set_max_in_flight(int jobs);
// Waits for all jobs that are not suspended, and ends the thread. The next `enqueue` starts it
// again. Waits for communication at most `patience`, since the processes that it needs may have
// failed.
void stop_launcher(std::chrono::milliseconds patience);

// Whether an exception (of a signal handler) ended the last wait for results.
bool was_interrupted();

// Throws in a process that was forked after the device was used.
void check_not_forked();
// Whether this process was forked after the device was used: the launcher's thread does not exist
// here.
bool in_bad_fork();

} // namespace ftm
