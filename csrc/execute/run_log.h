// A log of program runs with the spans of their kernels, for profilers. Thread-safe.
#pragma once

#include "program/program_table.h"
#include "program/source_origin.h"

#include <cstdint>
#include <vector>

namespace ftm {

struct ProgramRun {
  uint64_t number; // of the job, in launch order
  ProgramPtr program; // null if the run was abandoned
  Origin origin;
  int64_t begin, end; // nanoseconds since 1970
  std::vector<KernelSpan> spans; // empty if the program ran on the CPU
};

// Starts an empty log, and lets the machine record spans.
void start_run_log();
bool run_log_is_open();
// Ends the log and returns its runs.
std::vector<ProgramRun> stop_run_log();
void add_run(ProgramRun run);

} // namespace ftm
