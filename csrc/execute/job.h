// Runs one launched job on the launcher's thread. A job is a program or a host task. For a program:
// allocates memory for its results, runs it, and restores variables' old values if it fails.
#pragma once

#include "execute/collective_registry.h"
#include "memory/buffer.h"
#include "program/source_origin.h"
#include "program/program_table.h"

#include <memory>
#include <string>
#include <vector>

namespace ftm {

// The value that a result's variable had before the launch, to be restored if the run fails: an
// input of the job (by number, so that it can still be donated), another buffer, or none.
struct OldValue {
  int32_t input = -1;
  BufferPtr other;
};

struct Job;
using JobPtr = std::shared_ptr<Job>;

// Work that the host does with the values of buffers, for example a collective. Tasks begin in
// launch order, each when its inputs are computed. Later jobs run while a task is in flight, unless
// they need its outputs.
class HostTask {
 public:
  HostTask() = default;
  virtual ~HostTask() = default;
  HostTask(const HostTask&) = delete;
  HostTask& operator=(const HostTask&) = delete;

  // Begins the work, without waiting for its end. Called on the launcher's thread when the inputs
  // are computed and the outputs have memory. Calls `finish_task` at the end, on any thread, or
  // throws.
  virtual void begin(const JobPtr& job) = 0;
  // Makes a failure from an error of `begin`.
  virtual FailurePtr describe(const std::exception& error) const = 0;
};

// One launched program, or host task, with its operands.
struct Job {
  std::vector<Input> inputs;
  std::vector<BufferPtr> outputs; // pending until the run has ended
  std::vector<OldValue> old_values; // by output; may be empty
  std::vector<uint64_t> scalars;
  ProgramPtr program; // set by `start`; null if it is a task
  std::shared_ptr<HostTask> task; // null if it is a program
  std::vector<HostCollectivePtr> collectives; // of a program
  Origin origin;
  FailurePtr abandoned; // set by `abandon`: why it has no program
  // Guarded by the launcher's mutex.
  bool started = false;
  // An interrupt stopped it, or a job on which it depends. It runs when a thread waits for one of
  // its results.
  bool suspended = false;
  // A task that has begun and not ended, or a program that has run, while collectives compute some
  // of its results.
  bool in_flight = false;
  bool ended = false;
  FailurePtr failure; // of a job that has ended; null if it succeeded
  uint64_t number = 0; // in launch order
  std::vector<KernelSpan> spans; // of its run, while runs are logged

  // Whether other processes take part in it. Such jobs keep their order, and are never dropped.
  bool communicates() const { return task || !collectives.empty(); }
};

// The outcome of a run.
struct Outcome {
  std::vector<bool> valid; // by output: it has its new value, or its variable's old value
  FailurePtr failure; // null if the run succeeded
  bool interrupted = false; // stopped by an interrupt; the job is unchanged and may run again
};

// Runs a job whose inputs are all computed or failed. Never throws: errors are in the outcome.
// Called on the launcher's thread without its mutex.
Outcome run_job(Job& job);

// Begins a job's task. Returns its failure if it cannot begin, otherwise null. Called as `run_job`.
FailurePtr begin_task(const JobPtr& job);

} // namespace ftm
