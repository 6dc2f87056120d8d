// A program is a trace and its compiled form. The program table caches all programs by structural
// hash. Thread-safe.
#pragma once

#include "graph/trace.h"
#include "program/compile_client.h"
#include "program/machine.h"

#include <torch/csrc/lazy/backend/lowering_context.h>

#include <atomic>
#include <memory>
#include <string>

namespace ftm {

// Immutable once it is in the table, except for `first_run`.
class Program final : public torch::lazy::Computation {
 public:
  explicit Program(Trace trace);

  const Trace& trace() const { return trace_; }
  // Returns the compiled program; null if the reference executor runs the trace.
  const MachineProgram* machine() const { return machine_.get(); }
  void set_machine(std::unique_ptr<MachineProgram> program) { machine_ = std::move(program); }

  // Returns why compilation failed; empty if it succeeded, or no machine is used.
  const std::string& failure() const { return failure_; }
  void set_failure(std::string reason) { failure_ = std::move(reason); }

  // Returns, by result, the bit mask of dimensions that are symbols in the dynamic-shape program of
  // which this is a specialization. Empty if it is none.
  const std::vector<uint64_t>& varying_dims() const { return varying_dims_; }
  // Returns the size of a specialization's image; 0 for other programs.
  size_t specialization_bytes() const { return specialization_bytes_; }
  void set_specialization(std::vector<uint64_t> varying_dims, size_t bytes) {
    varying_dims_ = std::move(varying_dims);
    specialization_bytes_ = bytes;
  }

  // Returns true for the first call only. For observers of first runs.
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
  std::vector<uint64_t> varying_dims_;
  size_t specialization_bytes_ = 0;
  std::atomic<bool> has_run_{false};
  std::vector<torch::lazy::Shape> parameter_shapes_;
  std::vector<std::string> parameter_names_;
  torch::lazy::Shape result_shape_;
};

using ProgramPtr = std::shared_ptr<Program>;

// Returns the program with this hash, or null. In checked mode it compares the traces too, and
// throws if they differ. The graph is read under the recorder's lock.
ProgramPtr find_program(const Hash128& hash, const Graph& graph);

// The same without the comparison. Takes no lock but the table's.
ProgramPtr find_program(const Hash128& hash);
void add_program(const Hash128& hash, ProgramPtr program);

struct BuildResult {
  ProgramPtr program; // null if `interrupt` is set
  std::string failure; // why compilation failed; the reference executor runs the program then
  std::exception_ptr interrupt; // exception that interrupted the compiler
};
// Compiles a program and loads it. Only the compile queue calls it, once at a time for each
// program. Must not be called under the recorder's lock.
BuildResult compile_program(const CompileRequest& request);
// Counts a run on the reference executor of a program whose compilation failed. Throws in strict
// mode.
void count_op_by_op_run(const Program& program);
// Limits the number of programs in the table, and the total size of the images of specializations
// (which can be made again without compiling). Evicts the least recently used. Throws ValueError.
void set_program_limit(int64_t programs, int64_t specialization_bytes);
// Returns the number of programs in the table.
int64_t program_count();

// Whether programs are compiled for the machine, instead of run by the reference executor. A change
// empties the table.
void use_machine(bool use);
bool uses_machine();
// Checked mode: extra consistency checks, for tests.
void set_checked(bool checked);
bool is_checked();

} // namespace ftm
