// Programs of what was cut: built one after the other, and each started when it is there.
#pragma once

#include "partition/launch_plan.h"

#include <exception>
#include <vector>

namespace ftm {

// How building some cuts ended.
struct BuildOutcome {
  std::vector<LaunchUnit> left; // those that were not built, because of `error`; they keep their
                                // place in the order of runs
  std::exception_ptr error; // null: all have been started
  FailurePtr
      failure; // of what can't be built, with all behind it: their results have failed of `error`
};

// Whether all have their programs.
bool are_built(const std::vector<LaunchUnit>& cuts);

// Builds what has to be built, and starts each job when it is: it runs while the next one is built.
// Never throws. Not under the recorder's lock.
BuildOutcome build_and_start(std::vector<LaunchUnit> cuts);

// Warns, once, of what could not be compiled.
void warn_of_op_by_op();

} // namespace ftm
