// What of Python the recorder needs: the compiler's callback, the GIL, and Python exceptions.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <string>
#include <vector>

namespace ftm {

// Gives the GIL up for the scope, if this thread holds it: whoever waits must not keep others from
// finishing what it waits for.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  void* state_ = nullptr;
};

// True if a Python kernel raised NotImplementedError.
bool is_python_not_implemented(const std::exception& error);
// True for KeyboardInterrupt and its like.
bool is_python_interrupt(const std::exception& error);

// "file:line" of the innermost Python frame of the user's own code, or empty (in a backward pass, say).
std::string python_location();

struct CompileResult {
  std::string image; // of the machine's program; empty if compiling failed
  std::string error; // what went wrong
  std::exception_ptr interrupt; // set for KeyboardInterrupt and its like: to be thrown on
};

// Calls the compiler with the GIL. Never throws.
CompileResult compile_in_python(const std::string& trace_text);
// `callable`: a PyObject*, or null.
void set_compile_function(void* callable);

// Shows a program's first run to whoever wants to see it: fn(trace_text, inputs, scalars, outputs). Errors
// of the observer are reported as warnings.
void set_observer(void* callable);
bool has_observer();
void show_run(
    const std::string& trace_text, const std::vector<at::Tensor>& inputs,
    const std::vector<c10::Scalar>& scalars, const std::vector<at::Tensor>& outputs);

} // namespace ftm
