// Launched programs run one after another on a thread of their own, without Python, while the next step
// is recorded.
#pragma once

#include "buffer.h"
#include "program.h"

#include <memory>
#include <vector>

namespace ftm {

// One run of a program.
struct Job {
  std::vector<BufferPtr> inputs;
  std::vector<BufferPtr> outputs; // pending until the run has ended
  std::vector<int32_t> before; // for each output: the input that its variable held before, or -1
  std::vector<uint64_t> scalars;
  ProgramPtr program; // set by `start`
  bool started = false; // guarded by the launcher
};
using JobPtr = std::shared_ptr<Job>;

// Takes the job's place in the order of runs. Before `start` its inputs may be pending. Throws in a
// process that was forked after the device was used.
void enqueue(const JobPtr& job);
// From here on the job runs when its turn comes; the caller must have dropped its references to inputs
// that may be donated. Waits while too many jobs are in flight.
void start(const JobPtr& job, ProgramPtr program);

// Wait for one value; throws the error of the program that should have made it.
void wait_for(const BufferPtr& buffer);
// Wait for all jobs; throws the first error of a job that nobody has seen.
void wait_for_all();

void set_max_in_flight(int jobs);
// Waits for all jobs and ends the thread; it starts again when needed.
void stop_launcher();

// True in a child process whose parent had used the device: its thread isn't here.
bool in_bad_fork();
// Makes fork leave both processes with their locks in order.
void install_fork_handlers();

} // namespace ftm
