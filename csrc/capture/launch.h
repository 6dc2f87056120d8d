// One launch of a captured program.
#pragma once

#include "capture/capture.h"
#include "graph/pending_trace.h"

#include <map>

namespace ftm {

class Launch {
 public:
  // Throws for inputs of other types than the placeholders'; lays out anew those that lie otherwise
  // in memory, and what the program writes of these is copied back.
  Launch(const Captured& captured, std::vector<at::Tensor> inputs);
  virtual ~Launch() = default;
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  std::vector<at::Tensor> run();

 protected:
  // Makes `results_`.
  virtual void compute() = 0;

  // Seeds and offsets are drawn at each launch; the other scalars are as they were captured.
  std::vector<uint64_t> scalars() const;
  // The parameter that is the whole of this placeholder, or -1.
  int32_t parameter_of(int32_t placeholder) const;
  // A flat or dense tensor of all of a result.
  virtual at::Tensor whole_of(int32_t result, bool on_cpu);

  const Captured& captured_;
  std::vector<at::Tensor> inputs_;
  std::vector<BufferPtr> results_; // null: it was written where its input lies

 private:
  at::Tensor give(const Captured::Output& output);

  struct LaidOut { at::Tensor input, stands_for_it; };
  std::vector<LaidOut> written_elsewhere_;
  std::map<std::pair<int32_t, bool>, at::Tensor> given_; // by result, and whether on the CPU
};

// All inputs and outputs are on the CPU: the machine reads and writes them where they lie, now.
class CpuLaunch final : public Launch {
 public:
  // program: null to run op by op.
  CpuLaunch(const Captured& captured, std::vector<at::Tensor> inputs, const Program* program)
      : Launch(captured, std::move(inputs)),
        machine_(program != nullptr ? program->machine() : nullptr) {}

 private:
  const MachineProgram* machine_; // null: op by op

  void compute() override;
  void* address_of(const Captured::Parameter& parameter) const;
  void compute_op_by_op(const std::vector<void*>& inputs, const std::vector<uint64_t>& scalars);
};

// Queued behind what was recorded before; what is on the CPU is copied.
class DeviceLaunch final : public Launch {
 public:
  using Launch::Launch;

 private:
  void compute() override;
  PendingTrace* pending_in();
  Input input_of(const Captured::Parameter& parameter);
  void replace(size_t result, std::vector<Value>& old);
  void drop_inputs();
  void write_to_cpu();

  std::map<int32_t, BufferPtr> copies_; // of inputs on the CPU
};

// All is on the device: the program's calls are recorded behind those that are pending, and run
// with them.
class RecordedLaunch final : public Launch {
 public:
  using Launch::Launch;

  // False where something is on the CPU, or an input begins between elements as the program sees
  // them.
  static bool takes(const Captured& captured, const std::vector<at::Tensor>& inputs);

 private:
  void compute() override;
  std::vector<Value> record(c10::ArrayRef<uint64_t> scalars, const PythonLine& line) const;
  at::Tensor whole_of(int32_t result, bool on_cpu) override;

  std::vector<at::Tensor> wholes_; // by result; undefined for what an input has taken
};

} // namespace ftm
