// Turns a pending trace into programs to launch.
#pragma once

#include "graph/pending_trace.h"
#include "execute/job.h"
#include "program/compile_client.h"

#include <optional>
#include <vector>

namespace ftm {

// One program to compile, if it is not in the table, and to launch.
struct LaunchUnit {
  JobPtr job;
  ProgramPtr program; // null: compile `request`
  CompileRequest request; // empty if `program` is set; its symbols follow when it is compiled
};

// The programs of one trace.
struct LaunchPlan {
  std::vector<LaunchUnit> units; // in launch order
  // The program of the whole trace, if it is to be compiled while the trace runs in pieces.
  std::optional<CompileRequest> whole;
  Hash128 hash; // of the whole trace
  std::vector<Value> old_graph; // nodes that are no longer used; free them without the lock
};

// Returns the program that computes everything pending, if it is in memory; else null. Called under
// the recorder's lock.
ProgramPtr find_pending_program(const PendingTrace& pending);

// Partitions a pending trace into programs and enqueues their jobs in launch order. The trace's
// variables get the buffers that the jobs will compute, and the trace is empty afterwards. Called
// under the recorder's lock. Throws in a forked process.
LaunchPlan plan_launch(PendingTrace& pending);

} // namespace ftm
