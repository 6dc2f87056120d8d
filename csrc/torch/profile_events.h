// The events of a profile: what the logs recorded, with names. Every profiler shows these:
// torch.profiler (torch/profiler.cpp) and ftm_lazy.profiler, which reads them through Python.
#pragma once

#include "execute/run_log.h"
#include "support/event_log.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ftm {

// One kernel of one run, on all cores.
struct KernelEvent {
  std::string name; // "layer3.0.conv2 convolution+relu (backward)"
  std::string module, ops, line; // "" if unknown
  std::string shape; // type of the first result of the costliest operation
  bool is_backward = false;
  size_t run = 0; // index into Profile::runs
  int32_t kernel = 0; // number in the program
  // From the first core's begin to the last core's end. Kernels of a run do not overlap: a kernel
  // that starts while an earlier one runs on other cores begins when that one ends.
  int64_t begin = 0, end = 0;
  int64_t elapsed = 0; // nanoseconds, also those that overlap an earlier kernel
  int64_t busy = 0; // nanoseconds of all cores, without waits
  uint64_t dma_bytes = 0, mm_flops = 0, map_operations = 0;
  uint64_t correlation = 0, range = 0; // of torch.profiler, or 0
};

// One kernel on one core, or a wait at a barrier.
struct CoreEvent {
  int64_t kernel; // index into Profile::kernels; -1: a barrier
  int32_t core;
  int64_t begin, end;
};

struct Profile {
  std::vector<ProgramRun> runs; // in order of time
  std::vector<KernelEvent> kernels;
  std::vector<CoreEvent> cores;
  EventLog log;
};

// Starts to record a profile: waits for earlier programs, so that they are no part of it. Throws
// if one is being recorded.
void start_profile();
// Waits for all programs, and returns the profile.
Profile stop_profile();
bool is_profiling();

} // namespace ftm
