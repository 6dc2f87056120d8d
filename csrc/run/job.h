// One run of a program, on the launcher's thread: memory for its results, the run, and what its variables
// hold when it fails.
#pragma once

#include "run/launcher.h"

namespace ftm {

struct Outcome {
  std::vector<bool> whole; // for each output: it has its value, or that which its variable held before
  FailurePtr failure; // what went wrong; null if nothing did
};

// Never throws. The job's inputs have all been computed, or have failed.
Outcome run_job(Job& job);

} // namespace ftm
