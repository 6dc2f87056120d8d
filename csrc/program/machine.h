// The machine library behind its C interface (backend/ftm_backend/machine/include/ftm_machine.h).
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ftm {

// Loads the library and opens the machine, once per process. instruction_limit: that a core may
// execute in one run; 0: any number. Throws std::runtime_error.
void open_machine(const std::string& library, int cores, bool checked, uint64_t instruction_limit);
bool machine_is_open();
// Of the machine that is open.
int machine_cores();

// The machine stopped: inputs_whole says that no donated input had been written over.
struct MachineFault : std::runtime_error {
  MachineFault(const std::string& reason, bool inputs_whole)
      : std::runtime_error(reason), inputs_whole(inputs_whole) {}
  bool inputs_whole;
};

// interrupt_machine stopped the run; all inputs are whole.
struct MachineInterrupted : MachineFault {
  explicit MachineInterrupted(const std::string& reason)
      : MachineFault(reason, /*inputs_whole=*/true) {}
};
// Asks the launcher's run to stop where it may, if there is one; from any thread. Runs that begin
// later stop at once, until allow_runs is called.
void interrupt_machine();
void allow_runs();
bool is_interrupted();

// What stops a run: interrupt_machine, or an exception that a signal's handler raises on the thread
// that waits. The exception is thrown when the run has ended.
enum class InterruptedBy : uint8_t { launcher, signals };

// What a program says of one of its arguments: enum ftm_dtype, and the bytes that it reads or
// writes.
struct Declaration {
  int32_t dtype;
  size_t bytes;
};

// One image, loaded.
class MachineProgram {
 public:
  explicit MachineProgram(void* handle);
  ~MachineProgram();
  MachineProgram(const MachineProgram&) = delete;
  MachineProgram& operator=(const MachineProgram&) = delete;

  const std::vector<Declaration>& inputs() const { return inputs_; }
  const std::vector<Declaration>& scalars() const { return scalars_; }
  const std::vector<Declaration>& outputs() const { return outputs_; }
  // For each output the input whose memory it may take, or -1.
  const std::vector<int32_t>& aliases() const { return aliases_; }
  size_t arena_bytes() const { return arena_bytes_; }

  // Runs to the end. Throws MachineFault, MachineInterrupted.
  void run(
      const std::vector<void*>& inputs, const std::vector<void*>& outputs,
      const std::vector<uint64_t>& scalars, void* arena, InterruptedBy by) const;

 private:
  void* handle_;
  std::vector<Declaration> inputs_, scalars_, outputs_;
  size_t arena_bytes_;
  std::vector<int32_t> aliases_;
};

std::unique_ptr<MachineProgram> load_program(const std::string& image);

} // namespace ftm
