// What is pending, taken up as programs to be launched.
#pragma once

#include "graph/pending_trace.h"
#include "execute/job.h"

#include <vector>

namespace ftm {

struct LaunchUnit {
  JobPtr job;
  ProgramPtr program; // null: to be built from `trace`
  Trace trace;
  bool trains = false; // it computes gradients, or uses them
  bool any_size = false; // the piece will come with other sizes
  uint64_t whole =
      0; // the same for all pieces of what is recorded from one read or step to the next
  Hash128 hash;
};

struct LaunchPlan {
  std::vector<LaunchUnit>
      cuts; // in the order in which they run: several where the trace was cut into pieces
  Hash128 hash; // of the whole trace
  std::vector<Value> settled; // the old graph, to be freed without the lock
};

// Under the recorder's lock: takes up all that is pending in the trace. The variables get the
// values that the jobs will compute, and the jobs have their place in the order of runs.
LaunchPlan take_pending(PendingTrace& pending);

} // namespace ftm
