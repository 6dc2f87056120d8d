// Client of the compiler, which is a Python function. It maps a trace to an image of a
// machine program (bytes), or to the reason for a failure (str). Exceptions that it raises are the
// user's, such as KeyboardInterrupt, and are passed on. Several threads call it in parallel.
#pragma once

#include "graph/symbolic_sizes.h"
#include "graph/trace.h"

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace ftm {

// The compiler's answer: an image, an error, or an interrupt.
struct CompileResult {
  std::string image; // machine program; empty if compilation failed
  std::vector<uint64_t>
      varying_dims; // by result: bit mask of dimensions that are symbols; may be empty
  std::string error; // why compilation failed; empty if it did not
  // An exception that a signal handler raised, or that the compiler is missing. To be rethrown.
  std::exception_ptr interrupt;
};

// A program to compile, with the sizes that will probably differ in the next trace of the same
// structure.
struct CompileRequest {
  Hash128 hash; // of the trace
  Trace trace;
  uint64_t trace_id = 0; // of the trace that the program is a part of, for statistics
  bool trains = false; // a training step, so sizes of tensors that it creates are fixed too
  bool any_size = false; // each varying dimension varies independently, and may be 1
  SymbolicSizes symbols;
  std::vector<std::string> locations; // user's line of each call, or ""; empty if not noted
};

// Compiles a program. Acquires the GIL. Never throws. `rejection` is the reason why the machine
// rejected the image of an earlier call for this request; empty on the first call.
CompileResult compile_in_python(const CompileRequest& request, const std::string& rejection);
// Sets the compiler's function, a PyObject* or null. Needs the GIL.
void set_compile_function(void* callable);

} // namespace ftm
