// Compiles the programs of launch units one after the other, and starts each job once its program
// exists.
#pragma once

#include "partition/launch_plan.h"

#include <exception>
#include <vector>

namespace ftm {

// The outcome of building some units.
struct BuildOutcome {
  std::vector<LaunchUnit> not_built; // because of `error`; they stay in the launch order
  std::exception_ptr error; // null: all jobs have been started
  FailurePtr failure; // made of `error`, for the results of units that cannot be built
};

// Whether every unit has its program.
bool are_built(const std::vector<LaunchUnit>& units);

// Compiles the missing programs and starts the jobs in order. A job runs while the next program is
// compiled. Never throws. Acquires the GIL to compile. Must not be called under the recorder's
// lock.
BuildOutcome build_and_start(std::vector<LaunchUnit> units);

// Warns of the programs that could not be compiled since the last call.
void warn_of_compile_failures();

} // namespace ftm
