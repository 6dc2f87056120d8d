// The compiler, as a program's builder sees it: a Python function from a trace's text to an image
// of the machine's program (bytes), or to the reason why there is none (str). What it raises is not
// the compiler's affair but the user's. Another one is told of traces that will be compiled, so
// that it can begin with several of them at once.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace ftm {

struct CompileResult {
  std::string image; // of the machine's program; empty if compiling failed
  std::vector<uint64_t>
      varies; // of each result the dimensions that are symbols in the program; may be empty
  std::string error; // what went wrong
  std::exception_ptr interrupt; // the user's: a signal's handler raised it, or there is no
                                // compiler; to be thrown on
};

// What is likely of the next trace that is like one.
struct SizeGuess {
  std::vector<uint64_t> varies; // of each parameter the dimensions that are of another size, one
                                // bit each; none of all if it is empty
  bool trains = false; // and sizes that it makes itself are fixed
  bool any_size = false; // of these dimensions, each on its own, and of one element too
};

struct CompileRequest {
  std::string trace_text;
  std::vector<std::string> locations; // for each call the Python line that recorded it, or nothing;
                                      // none if they are not noted
  SizeGuess likely;
  uint64_t whole = 0; // the same number for all pieces of a trace
};

// Calls the compiler with the GIL. Never throws. refused: why the image that it gave for this trace
// before was no good; empty the first time.
CompileResult compile_in_python(const CompileRequest& request, const std::string& refused);
// These will be compiled, in this order. Never throws.
void announce_to_python(const std::vector<CompileRequest>& requests);
// Both are a PyObject*, or null.
void set_compile_functions(void* compile, void* announce);

} // namespace ftm
