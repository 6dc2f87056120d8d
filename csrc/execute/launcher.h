// Launched programs run one after another on a thread of their own, without Python, while the next
// step is recorded. An exception of a signal's handler, such as KeyboardInterrupt, that ends a wait
// suspends all jobs: each runs when somebody waits for what it computes, and jobs that do not need
// its results go before it.
#pragma once

#include "execute/job.h"

namespace ftm {

// Takes the job's place in the order of runs. Before `start` its inputs may be pending. Throws in a
// process that was forked after the device was used.
void enqueue(const JobPtr& job);
// From here on the job runs when its turn comes; the caller must have dropped its references to
// inputs that may be donated. Waits while too many jobs before it are in flight.
void start(const JobPtr& job, ProgramPtr program);
// Instead of `start`, for a job that can't run: its results fail, or are what their variables held
// before. Does nothing to a job that was started.
void abandon(const JobPtr& job, FailurePtr failure) noexcept;

// Jobs that have their place can't be started until `resume` is called: who waits for jobs calls
// it. It may throw, and stall again.
void stall(void (*resume)());
// For a thread that starts jobs of others, who may wait until it has: what is stalled or was
// interrupted is left to who waits for results, and it waits for room for jobs only behind such as
// were started.
void work_for_others();

// Somebody waits for what starts jobs.
class Waiting {
 public:
  Waiting();
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  // An exception, as of a signal's handler, ends the wait, and the run at hand, of which nothing is
  // lost.
  void give_up();

 private:
  bool counts_ = true;
};

// Wait for one value; throws the error of the program that should have made it, or that of another
// program which nobody has seen yet.
void wait_for(const BufferPtr& buffer);
// Wait for all jobs; throws an error that nobody has seen yet.
void wait_for_all();

void set_max_in_flight(int jobs);
// Waits for all jobs that are not suspended and ends the thread; it starts again when needed.
void stop_launcher();

// Whether an exception, as of a signal's handler, ended the last wait for results.
bool was_interrupted();

// Throws in a process that was forked after the device was used.
void check_not_forked();
// True in a child process whose parent had used the device: its thread isn't here.
bool in_bad_fork();
// Makes fork leave both processes with their locks in order.
void install_fork_handlers();

} // namespace ftm
