// Captures: a program is recorded on placeholders, and launched later on any tensors of their
// types, on the CPU or on the device. Used by everything whose program is known before it runs:
// torch.compile, exported and scripted programs. Operations become a program by the same rules as
// in normal recording.
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

class CapturedProgram;

// A recording on this thread until `end`. Meanwhile, a call that would run on the CPU, or a read of
// a value that is not in memory, throws NotImplementedError. Use it on one thread.
class Capture {
 public:
  Capture(); // begins; throws if this thread is capturing
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Ends the recording; may be called twice. The default generator's state is as before, since each
  // launch draws its own numbers.
  void end();
  // Makes the next input: a tensor with a type but no elements. Throws ValueError if the numbers of
  // sizes and strides differ.
  at::Tensor placeholder(c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType dtype);
  // Makes the program that returns these tensors, and that writes to an input what was written to
  // its placeholder. `on_cpu`: for each output, whether launches return it on the CPU. Throws if an
  // output is not a strided tensor of the device.
  std::shared_ptr<CapturedProgram> finish(
      const std::vector<at::Tensor>& outputs, const std::vector<bool>& on_cpu) const;

 private:
  friend class CapturedProgram;
  std::optional<LocalRandomOffset> draws_; // reset by `end`
  std::vector<at::Tensor> placeholders_;
  std::vector<BufferPtr> contents_; // initial buffer of each placeholder, which identifies it
};

// A program with its inputs and outputs. Immutable, except for `build`.
class CapturedProgram {
 public:
  // A parameter of the trace: part of a placeholder, from an element on, or a constant.
  struct Parameter {
    int32_t placeholder; // -1 for a constant
    BufferPtr constant;
    ValueType type;
    int64_t offset; // in elements of `type`
  };
  // A returned tensor: a view of a result, of an input, or of a constant; none of them if it has no
  // elements.
  struct Output {
    int32_t result = -1;
    int32_t input = -1;
    BufferPtr constant;
    bool on_cpu = false;
    at::ScalarType dtype;
    c10::DimVector sizes, strides;
    int64_t offset = 0;
  };
  // Scalars that are drawn anew at each launch: the positions of seed and offset among the scalars,
  // and the number of the draw in the program.
  struct Draw {
    int64_t seed, offset;
    uint64_t number;
  };

  CapturedProgram(
      const Capture& capture, const std::vector<at::Tensor>& outputs,
      const std::vector<bool>& on_cpu);

  const Trace& trace() const { return trace_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  // Returns, by result of the trace, the placeholder whose content it becomes; -1 for none.
  const std::vector<int32_t>& replaces() const { return replaces_; }
  // Whether the program writes to this placeholder.
  bool writes(size_t placeholder) const {
    return std::find(replaces_.begin(), replaces_.end(), static_cast<int32_t>(placeholder)) !=
           replaces_.end();
  }
  // Returns the scalar operands as they were captured.
  std::vector<c10::Scalar> scalars() const;
  const std::vector<Draw>& draws() const { return draws_; }
  // Returns the number of random draws of one run.
  uint64_t draws_made() const { return draws_made_; }
  // Looks up or compiles the program, once. Needs the GIL. If compilation fails, warns, and the
  // program runs op by op. Throws an exception that interrupted the compiler.
  void build();
  // Runs the program on one tensor for each placeholder and returns the outputs. Builds it if
  // necessary.
  //    - All inputs and outputs on the CPU: runs now, and reads and writes them in place.
  //    - All on the device: the program's calls are recorded, and become part of the pending trace.
  //    - Otherwise: the program is enqueued after the pending trace; CPU inputs are copied.
  // `op_by_op` runs it on the reference executor, for CPU tensors only. Inputs that the program
  // writes have their new content afterwards. Throws ValueError if the inputs do not match the
  // placeholders. Must not be called under the recorder's lock.
  std::vector<at::Tensor> launch(std::vector<at::Tensor> inputs, bool op_by_op = false);

 private:
  struct Placeholder {
    at::ScalarType dtype;
    c10::DimVector sizes, strides;
    int64_t extent; // number of elements from the first to the last
  };
  friend class Launch;
  friend class CpuLaunch;
  friend class DeviceLaunch;
  friend class RecordedLaunch;

  void add_output(
      const Capture& capture, const at::Tensor& tensor, bool on_cpu, std::vector<Value>& results);
  void read_graph(const Capture& capture, const Graph& graph);

  // Per call of the trace: data that the trace does not have.
  struct CallInfo {
    torch::lazy::OpKind kind;
    bool may_fail; // its node notes the user's line
  };

  Trace trace_;
  std::vector<CallInfo> calls_;
  bool may_fail_ = false; // whether some call may fail
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
