// A program: a trace together with what runs it, and the table of all programs by structural hash.
#pragma once

#include "graph/trace.h"
#include "program/compile_client.h"
#include "program/machine.h"

#include <torch/csrc/lazy/backend/lowering_context.h>

#include <atomic>
#include <memory>
#include <string>

namespace ftm {

class Program final : public torch::lazy::Computation {
 public:
  explicit Program(Trace trace);

  const Trace& trace() const { return trace_; }
  // Null: the reference executor runs the trace.
  const MachineProgram* machine() const { return machine_.get(); }
  void set_machine(std::unique_ptr<MachineProgram> program) { machine_ = std::move(program); }

  // Why there is no machine's program, where there should be one; else empty.
  const std::string& failure() const { return failure_; }
  void set_failure(std::string reason) { failure_ = std::move(reason); }

  // Of each result the dimensions that are symbols in the program that this is an instance of, one
  // bit each; none if it is none.
  const std::vector<uint64_t>& varies() const { return varies_; }
  // Of the image of an instance; 0 if it is none.
  size_t instance_bytes() const { return instance_bytes_; }
  void set_instance(std::vector<uint64_t> varies, size_t bytes) {
    varies_ = std::move(varies);
    instance_bytes_ = bytes;
  }

  // True once: for who wants to see the first run.
  bool first_run() { return !has_run_.exchange(true); }

  int parameters_size() const override;
  const std::vector<torch::lazy::Shape>& parameter_shapes() const override;
  const std::vector<std::string>& parameter_names() const override;
  const torch::lazy::Shape& result_shape() const override;
  const std::string to_string() const override;

 private:
  Trace trace_;
  std::unique_ptr<MachineProgram> machine_;
  std::string failure_;
  std::vector<uint64_t> varies_;
  size_t instance_bytes_ = 0;
  std::atomic<bool> has_run_{false};
  std::vector<torch::lazy::Shape> parameter_shapes_;
  std::vector<std::string> parameter_names_;
  torch::lazy::Shape result_shape_;
};

using ProgramPtr = std::shared_ptr<Program>;

// By hash; null if there is none yet. In checked mode the text is compared too (throws if it
// differs).
ProgramPtr find_program(const Hash128& hash, const Graph& graph);

struct Built {
  ProgramPtr program;
  std::string failure; // why the reference executor runs it, if it should have been compiled
  std::exception_ptr interrupt; // the user interrupted the compiler: there is no program
};
// Compiles, and keeps the result under the hash; if another thread is at it, waits for that. Not
// under the recorder's lock. request: what the compiler is told; the trace's text where it was
// announced.
Built build_program(const Hash128& hash, const Trace& trace, CompileRequest request);
// Counts that a program which did not compile runs op by op; throws in strict mode.
void note_op_by_op(const Program& program);
// Programs kept in memory, and bytes of the images of those that are instances, which are made
// again without compiling; the longest unused are forgotten first.
void set_program_limit(int64_t programs, int64_t instance_bytes);
int64_t program_count();
void forget_programs();

// Whether programs are compiled for the machine, or run by the reference executor.
void use_machine(bool use);
bool uses_machine();
void set_checked(bool checked);
bool is_checked();

} // namespace ftm
