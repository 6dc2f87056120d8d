// Capture: a program recorded on placeholders, to be launched later on any tensors of their types,
// on the CPU or on the device. The way of everything that knows its program before it runs:
// torch.compile, exported and scripted programs. The recorder's rules, and only they, say what the
// program is.
#pragma once

#include "random/generator.h"
#include "program/program_table.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ftm {

class Captured;

// A recording under way on this thread. Until it ends, a call that would run on the CPU and the
// reading of a value that is not in memory throw NotImplementedError.
class Capture {
 public:
  Capture(); // begins; throws if this thread captures already
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Ends. The default generator is as it was: a launch draws its own numbers.
  void end();
  // Stands for the next input: it has a type and no content.
  at::Tensor placeholder(c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType dtype);
  // The program that gives these tensors and writes what was written to placeholders. on_cpu: for
  // each output, whether a launch is to put it on the CPU.
  std::shared_ptr<Captured> finish(
      const std::vector<at::Tensor>& outputs, const std::vector<bool>& on_cpu) const;

 private:
  friend class Captured;
  std::optional<LocalRandomOffset> draws_; // until it ends
  std::vector<at::Tensor> placeholders_;
  std::vector<BufferPtr>
      contents_; // of the placeholders: told apart by these, whatever is written over them
};

class Captured {
 public:
  // What the program reads: a placeholder's memory from an element on, or a constant.
  struct Parameter {
    int32_t placeholder; // or -1
    BufferPtr constant;
    ValueType type;
    int64_t offset; // elements of `type`
  };
  // A tensor to give: a view of a result, of an input, or of a constant; with none of them it has
  // no elements.
  struct Output {
    int32_t result = -1;
    int32_t input = -1;
    BufferPtr constant;
    bool on_cpu = false;
    at::ScalarType dtype;
    c10::DimVector sizes, strides;
    int64_t offset = 0;
  };
  // Scalars that are drawn at each launch: positions of seed and offset, and which of the program's
  // draws it is.
  struct Draw {
    int64_t seed, offset;
    uint64_t number;
  };

  Captured(
      const Capture& capture, const std::vector<at::Tensor>& outputs,
      const std::vector<bool>& on_cpu);

  std::string text() const { return trace_text(trace_); }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  // For each result of the trace: the placeholder whose content it becomes, or -1.
  const std::vector<int32_t>& replaces() const { return replaces_; }
  bool writes(size_t placeholder) const {
    return std::find(replaces_.begin(), replaces_.end(), static_cast<int32_t>(placeholder)) !=
           replaces_.end();
  }
  std::vector<c10::Scalar> scalars() const;
  const std::vector<Draw>& draws() const { return draws_; }
  // Random draws of one run.
  uint64_t draws_made() const { return draws_made_; }
  // Finds or compiles the program, unless that has been done. Under the GIL. A failure to compile
  // is warned of, and the program runs op by op.
  void build();
  // Runs it on one tensor for each placeholder; those that the program writes have their new
  // content afterwards. On tensors of the CPU it runs at once, where they lie; where all is on the
  // device its calls are recorded, to run with those around them; else it is queued behind what was
  // recorded before. Builds what it runs. op_by_op: through ATen instead of on the machine, for
  // tensors of the CPU.
  std::vector<at::Tensor> launch(std::vector<at::Tensor> inputs, bool op_by_op = false);

 private:
  struct Placeholder {
    at::ScalarType dtype;
    c10::DimVector sizes, strides;
    int64_t extent; // elements from the first to the last
  };
  friend class Launch;
  friend class CpuLaunch;
  friend class DeviceLaunch;
  friend class RecordedLaunch;

  void add_output(
      const Capture& capture, const at::Tensor& tensor, bool on_cpu, std::vector<Value>& results);
  void read_graph(const Capture& capture, const Graph& graph);

  // Of each call of the trace what the trace does not say.
  struct Recorded {
    torch::lazy::OpKind kind;
    bool may_fail; // on the machine: its node names the Python line
  };

  Trace trace_;
  std::vector<Recorded> calls_;
  bool may_fail_ = false; // some call
  std::atomic<bool> built_{false};
  Hash128 hash_;
  ProgramPtr program_;
  std::vector<Placeholder> placeholders_;
  std::vector<Parameter> parameters_;
  std::vector<Output> outputs_;
  std::vector<int32_t> replaces_;
  std::vector<uint64_t> scalars_;
  std::vector<Draw> draws_;
  uint64_t draws_made_ = 0;
};

} // namespace ftm
