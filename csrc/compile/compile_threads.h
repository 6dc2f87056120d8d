// The compile threads: they take programs from the compile queue (compile/compile_queue.h), at most
// one for each compiler process, and start the launched units that wait for these, while the user's
// program continues to record. A program that several units need is compiled once.
//
// Some modes compile on the thread that launches: without the machine, with an observer, with
// `set_compile_at_launch`, or if no thread can be started. A thread that waits then does the
// queue's work itself.
#pragma once

#include "partition/plan_launch.h"

#include <vector>

namespace ftm {

// Starts the jobs of a launch, in launch order, each when its program is compiled. If no unit of
// any launch waits for a program, they are started at once on this thread. Otherwise it waits,
// without the GIL: if `is_awaited`, until all are started, since the calling thread goes on to wait
// for results and reports what could not be compiled; else while more than 4 launches are queued.
// Throws the exception of a signal handler, or that the compiler is missing. Must not be called
// under the recorder's lock.
void launch_units(std::vector<LaunchUnit> units, bool is_awaited);

// Compiles the program of a whole trace that runs in pieces, and notes when it takes over
// (partition/whole_programs.h). Does not wait.
void compile_whole(CompileRequest request);

// Returns a program, after compiling it if it is not in memory. Waits without the GIL. Throws as
// `launch_units`.
ProgramPtr wait_for_program(CompileRequest request);

// Waits, without the GIL, until no program is compiled any more and all units are started. Throws
// as `launch_units`.
void wait_for_compilations();

// Warns of the programs that could not be compiled since the last call. The thread that waits for a
// result calls it, not the one that compiles.
void warn_of_compile_failures();

// Waits until all units are started, and ends the compile threads. After an interrupt, units whose
// results no thread waits for are dropped. Throws the exception of a signal handler.
void stop_compile_threads();

// Sets the number of compile threads, from now on. Throws ValueError if below 1.
void set_compile_threads(int count);
// Sets whether the launching thread always compiles, for tools that inspect its stack during
// compilation.
void set_compile_at_launch(bool always);

} // namespace ftm
