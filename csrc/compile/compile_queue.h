// The compile thread. It builds the units of launches whose results no thread waits for yet, as at
// the end of a training step, while the program continues to record.
#pragma once

#include "partition/launch_plan.h"

#include <vector>

namespace ftm {

// Builds and starts these units on the compile thread, after the earlier ones. Waits, without the
// GIL, if more than 3 tasks are queued. Throws the exception of a signal handler.
void build_later(std::vector<LaunchUnit> units);
// Builds and starts these units on this thread, after the compile thread has finished the earlier
// ones. Throws the error that prevents it.
void build_now(std::vector<LaunchUnit> units);
// As build_now, for a thread that then waits for results. If Python runs signal handlers on this
// thread, the compile thread builds instead: a handler may itself read a result, and a compilation
// on this thread could not continue until the handler returns, which would deadlock.
void build_and_wait(std::vector<LaunchUnit> units);
// Builds on this thread the units whose compilation was interrupted, or failed because no compiler
// was set. Threads that wait for jobs call it. Throws as build_now.
void resume_building();

// Waits until all units are built, and ends the compile thread. After an interrupt, units whose
// results no thread waits for are not built. Throws the exception of a signal handler.
void stop_compile_thread();

} // namespace ftm
