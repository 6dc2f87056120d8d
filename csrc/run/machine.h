// The machine library behind its C interface (backend/ftm_backend/machine/include/ftm_machine.h).
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ftm {

// Loads the library and opens the machine, once per process. Throws std::runtime_error.
void open_machine(const std::string& library, int cores, bool checked);
bool machine_is_open();

// The machine stopped: inputs_whole says that no donated input had been written over.
struct MachineFault : std::runtime_error {
  MachineFault(const std::string& reason, bool inputs_whole)
      : std::runtime_error(reason), inputs_whole(inputs_whole) {}
  bool inputs_whole;
};

// One image, loaded.
class MachineProgram {
 public:
  explicit MachineProgram(void* handle);
  ~MachineProgram();
  MachineProgram(const MachineProgram&) = delete;
  MachineProgram& operator=(const MachineProgram&) = delete;

  size_t inputs() const {
    return inputs_;
  }
  // For each output the input whose memory it may take, or -1.
  const std::vector<int32_t>& aliases() const {
    return aliases_;
  }
  const std::vector<size_t>& output_bytes() const {
    return output_bytes_;
  }
  size_t scalars() const {
    return scalars_;
  }
  size_t arena_bytes() const {
    return arena_bytes_;
  }

  // Runs to the end. Throws MachineFault.
  void run(
      const std::vector<void*>& inputs, const std::vector<void*>& outputs,
      const std::vector<uint64_t>& scalars, void* arena) const;

 private:
  void* handle_;
  size_t inputs_;
  size_t scalars_;
  size_t arena_bytes_;
  std::vector<int32_t> aliases_;
  std::vector<size_t> output_bytes_;
};

std::unique_ptr<MachineProgram> load_program(const std::string& image);

} // namespace ftm
