// What the compile queue holds, and which of it is next. All functions are called with the queue's
// mutex.
#pragma once

#include "compile/compilation.h"
#include "partition/plan_launch.h"
#include "program/program_table.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

namespace ftm {

// A launched unit that is not started yet.
struct QueuedUnit {
  JobPtr job;
  ProgramPtr program; // null until it is compiled
  CompilationPtr compilation; // null if the program was in memory
  uint64_t launch = 0; // number of the launch
  std::thread::id owner; // launching thread that starts it and throws its error; none: any thread
};

struct CompileQueue {
  // While it is held, only the mutexes of single tables are acquired, and never the GIL.
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<QueuedUnit> units; // in launch order
  uint64_t launches = 0; // number of launches so far
  std::vector<CompilationPtr> compilations; // those that are not done, in the order of requests
  // Results of units whose varying dimensions are known only after compilation. A request that
  // depends on them waits.
  std::unordered_set<const Buffer*> undecided;
  bool starting = false; // a compile thread starts a unit, and perhaps waits for room
  std::vector<std::thread> threads;
  uint64_t stops = 0; // a thread ends when it was started before the last stop
  bool lacks_threads = false; // and the user was warned of it
  // For the thread that next waits for a result.
  std::vector<std::string> failures; // why programs could not be compiled
  std::string no_thread; // why a further compile thread could not be started
};
using QueueLock = std::unique_lock<std::mutex>;

bool is_done(const CompilationPtr& compilation);
bool has_interrupt(const CompilationPtr& compilation);
bool is_started(const CompileQueue& q, uint64_t launch);
// Notes that the varying dimensions of the results of these units are known.
void decide(CompileQueue& q, const CompilationPtr& compilation);
// Returns the first compilation to begin, or null. `is_requester`: also reserved ones.
CompilationPtr next_to_compile(const CompileQueue& q, bool is_requester);
// Whether the first unit can be started. Only one compile thread starts units: it may wait for room
// in the run queue, and the others go on to compile. None starts those that have an owner.
bool can_start(const CompileQueue& q, bool is_requester);
// Sets the program of a unit.
void set_program(QueuedUnit& unit, ProgramPtr program);
// Puts the outcome of a compilation into the queue. One that was interrupted stays there if units
// or threads wait for it; returns whether it does.
bool note_outcome(CompileQueue& q, const CompilationPtr& compilation, const BuildResult& built);
CompilationPtr first_interrupted(const CompileQueue& q);
// Returns the compilation of a program; it is done if the program is in memory. A new one is
// reserved for this thread if `is_here`.
CompilationPtr request_program(CompileQueue& q, CompileRequest request, JobPtr job, bool is_here);
// Appends the units of a launch. Returns the launch's number. `is_here`: the programs are reserved
// for the calling thread, which owns the units.
uint64_t append(CompileQueue& q, std::vector<LaunchUnit> units, bool is_here);

} // namespace ftm
