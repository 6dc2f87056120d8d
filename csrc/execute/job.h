// Runs one launched program on the launcher's thread: allocates memory for its results, runs it,
// and restores variables' old values if it fails.
#pragma once

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

// One launched program with its operands.
struct Job {
  std::vector<Input> inputs;
  std::vector<BufferPtr> outputs; // pending until the run has ended
  std::vector<OldValue> old_values; // by output; may be empty
  std::vector<uint64_t> scalars;
  ProgramPtr program; // set by `start`
  Origin origin;
  FailurePtr abandoned; // set by `abandon`: why it has no program
  // Guarded by the launcher's mutex.
  bool started = false;
  // An interrupt stopped it, or a job on which it depends. It runs when a thread waits for one of
  // its results.
  bool suspended = false;
  uint64_t number = 0; // in launch order
};
using JobPtr = std::shared_ptr<Job>;

// The outcome of a run.
struct Outcome {
  std::vector<bool> valid; // by output: it has its new value, or its variable's old value
  FailurePtr failure; // null if the run succeeded
  bool interrupted = false; // stopped by an interrupt; the job is unchanged and may run again
};

// Runs a job whose inputs are all computed or failed. Never throws: errors are in the outcome.
// Called on the launcher's thread without its mutex.
Outcome run_job(Job& job);

} // namespace ftm
