// One run of a program, on the launcher's thread: memory for its results, the run, and what its
// variables hold when it fails.
#pragma once

#include "memory/buffer.h"
#include "program/source_origin.h"
#include "program/program_table.h"

#include <memory>
#include <string>
#include <vector>

namespace ftm {

// What a result's variable held before, for the case that the run fails: nothing, an input of the
// job (so that it can still be donated), or another value.
struct Before {
  int32_t input = -1;
  BufferPtr other;
};

// One run of a program.
struct Job {
  std::vector<Input> inputs;
  std::vector<BufferPtr> outputs; // pending until the run has ended
  std::vector<Before> before; // for each output; may be empty
  std::vector<uint64_t> scalars;
  ProgramPtr program; // set by `start`
  Origin origin;
  FailurePtr abandoned; // why it has no program; set by `abandon`
  // Guarded by the launcher:
  bool started = false;
  bool suspended = false; // the user interrupted it, or what it reads: it runs when somebody waits
                          // for what it computes
  uint64_t number = 0; // in the order of runs
};
using JobPtr = std::shared_ptr<Job>;

struct Outcome {
  std::vector<bool>
      whole; // for each output: it has its value, or that which its variable held before
  FailurePtr failure; // what went wrong; null if nothing did
  bool interrupted = false; // and nothing else: the job is as before, and may run again
};

// Never throws. The job's inputs have all been computed, or have failed.
Outcome run_job(Job& job);

} // namespace ftm
