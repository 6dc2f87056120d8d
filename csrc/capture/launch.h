// Launches of captured programs. Each object is one launch, used on one thread without the
// recorder's lock.
#pragma once

#include "capture/capture.h"
#include "execute/job.h"
#include "graph/pending_trace.h"

#include <map>

namespace ftm {

class Launch {
 public:
  // Checks the inputs against the placeholders; throws ValueError if devices, dtypes or sizes
  // differ. Copies inputs with other strides; `run` copies written ones back.
  Launch(const CapturedProgram& captured, std::vector<at::Tensor> inputs);
  virtual ~Launch() = default;
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // Runs the program and returns the outputs. Throws its errors.
  std::vector<at::Tensor> run();

 protected:
  // Computes `results_` and updates the inputs that the program writes.
  virtual void compute() = 0;

  // Returns the scalar operands, with seeds and offsets drawn for this launch.
  std::vector<uint64_t> scalars() const;
  // Returns the parameter that is this whole placeholder, or -1.
  int32_t parameter_of(int32_t placeholder) const;
  // Returns a tensor of a whole result, one-dimensional or row-major.
  virtual at::Tensor result_tensor(int32_t result, bool on_cpu);

  const CapturedProgram& captured_;
  std::vector<at::Tensor> inputs_;
  std::vector<BufferPtr> results_; // null: written in place to its input

 private:
  at::Tensor make_output(const CapturedProgram::Output& output);

  struct InputCopy { at::Tensor original, copy; };
  std::vector<InputCopy> written_copies_;
  std::map<std::pair<int32_t, bool>, at::Tensor> made_results_; // by (result, on the CPU)
};

// All inputs and outputs are on the CPU. Runs at once on the calling thread; the machine reads and
// writes them in place.
class CpuLaunch final : public Launch {
 public:
  // `program` is null to run op by op.
  CpuLaunch(const CapturedProgram& captured, std::vector<at::Tensor> inputs, const Program* program)
      : Launch(captured, std::move(inputs)),
        machine_(program != nullptr ? program->machine() : nullptr) {}

 private:
  const MachineProgram* machine_; // null: run op by op

  void compute() override;
  void* address_of(const CapturedProgram::Parameter& parameter) const;
  void compute_op_by_op(const std::vector<void*>& inputs, const std::vector<uint64_t>& scalars);
};

// Enqueues the program after the pending trace. CPU inputs are copied to the device.
class DeviceLaunch final : public Launch {
 public:
  using Launch::Launch;

 private:
  void compute() override;
  PendingTrace* pending_input_trace(); // a trace in which an input is pending, or null
  OldValue old_value(int32_t placeholder) const;
  Input input_of(const CapturedProgram::Parameter& parameter);
  void replace_input(size_t result, std::vector<Value>& old);
  void drop_inputs();
  void write_to_cpu();

  std::map<int32_t, BufferPtr> copies_; // of CPU inputs
};

// All inputs and outputs are on the device. Records the program's calls into the pending trace, so
// that they are compiled together with the calls before and after.
class RecordedLaunch final : public Launch {
 public:
  using Launch::Launch;

  // Returns false if a tensor is on the CPU, or the program would read an input from within an
  // element.
  static bool is_supported(const CapturedProgram& captured, const std::vector<at::Tensor>& inputs);

 private:
  void compute() override;
  std::vector<Value> record(c10::ArrayRef<uint64_t> scalars, const PythonLine& line) const;
  at::Tensor result_tensor(int32_t result, bool on_cpu) override;

  std::vector<at::Tensor> result_tensors_; // by result; undefined if it replaces an input
};

} // namespace ftm
