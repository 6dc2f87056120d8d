// A program that is being compiled: the future for which launched jobs and captured graphs wait.
#pragma once

#include "execute/job.h"
#include "program/compile_client.h"

#include <exception>
#include <memory>
#include <string_view>
#include <unordered_set>

namespace ftm {

struct Compilation {
  enum class State : uint8_t { waiting, running, interrupted, done };

  // The program computes a job whose inputs decide which sizes are symbols. Without a job the
  // request is complete.
  explicit Compilation(CompileRequest request, JobPtr job = nullptr);

  // Only the thread that compiles uses these while the state is `running`.
  CompileRequest request;
  JobPtr job; // null as soon as the request is complete

  // Guarded by the compile queue's mutex.
  State state = State::waiting;
  bool is_reserved = false; // for the thread that requested it; compile threads leave it out
  bool is_whole = false; // of a trace that runs in pieces meanwhile (partition/whole_programs.h)
  bool has_known_dims = false; // which dimensions of the results vary is decided
  int waiters = 0; // units and threads that need the program
  ProgramPtr program; // null until `done`, and if `failure` is set
  FailurePtr failure; // the error that prevented a program
  // That the compiler is missing, on a compile thread; a thread that waits throws it.
  std::exception_ptr interrupt;

  // Whether most of their operations are of the same kinds. Similar programs share kernels, which
  // are compiled once if the programs are compiled one after the other; and if they differ only in
  // sizes, a dynamic-shape program for the first may serve the second.
  bool is_similar(const Compilation& other) const;

 private:
  std::unordered_set<std::string_view> operations_; // names, which the trace's calls own
};
using CompilationPtr = std::shared_ptr<Compilation>;

// Completes the request: which sizes are symbols, and the line of each call if all lines are noted.
// Returns whether its results have fixed sizes, whatever the compiler makes of it.
bool complete_request(Compilation& compilation);

// Marks the dimensions of a dynamic-shape program's results that may differ in its next run.
void set_varying_results(const Job& job, const Program& program);

// Whether a job is a constant fill of an optimizer's first step, for which one program serves all
// sizes. Its result does not vary: an optimizer's state keeps its size.
bool is_fill(const CompileRequest& request, const Job& job);

} // namespace ftm
