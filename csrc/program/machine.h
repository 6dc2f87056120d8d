// The machine library, used through its C interface
// (backend/ftm_backend/machine/include/ftm_machine.h).
#pragma once

#include "ftm_machine.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ftm {

// Loads the library and opens the machine; later calls do nothing. `cores` and `checked` configure
// it. `instruction_limit` is the number of instructions that a core may execute in one run; 0 for
// no limit. Throws std::runtime_error.
void open_machine(const std::string& library, int cores, bool checked, uint64_t instruction_limit);
// Whether open_machine has succeeded.
bool machine_is_open();
// Returns the number of cores of the open machine.
int machine_cores();

// Sets whether runs leave one of this process's processors to the thread that records. A run notes
// it at its next barrier.
void leave_a_processor(bool leaves);

// The machine stopped a run. `inputs_intact` is true if no donated input was overwritten. Then the
// run may be repeated elsewhere, unless it has communicated with other processes.
struct MachineFault : std::runtime_error {
  MachineFault(const std::string& reason, bool inputs_intact, bool is_repeatable)
      : std::runtime_error(reason), inputs_intact(inputs_intact), is_repeatable(is_repeatable) {}
  bool inputs_intact, is_repeatable;
};

// The run was stopped by interrupt_machine; its inputs are intact.
struct MachineInterrupted : MachineFault {
  explicit MachineInterrupted(const std::string& reason)
      : MachineFault(reason, /*inputs_intact=*/true, /*is_repeatable=*/true) {}
};
// Sets the functions that carry out collectives of programs. Throws std::runtime_error if the
// machine has no collectives.
void set_collectives(const ftm_collectives& collectives);

// Stops the launcher's run, if there is one, at the next point where that is possible. Runs that
// begin later stop at once, until allow_runs is called. May be called on any thread.
void interrupt_machine();
// Ends the effect of interrupt_machine.
void allow_runs();
// Whether runs stop at once.
bool is_interrupted();

// How a run can be interrupted: by interrupt_machine, for runs on the launcher's thread; or by an
// exception of a signal handler, for runs on the user's thread. That exception is thrown when the
// run has ended.
enum class InterruptedBy : uint8_t { launcher, signals };

// The time of one core in one kernel (see the machine's interface).
using KernelSpan = ftm_span;
// Turns the recording of spans on or off, for runs that begin later. A machine may not support it.
void record_spans(bool on);

// A program's declaration of an argument: its element type (enum ftm_dtype), and the number of
// bytes that the program reads or writes.
struct Declaration {
  int32_t dtype;
  size_t bytes;
};

// A loaded image. Immutable but for notes about its last run, so it may be used on any thread.
class MachineProgram {
 public:
  explicit MachineProgram(void* handle);
  ~MachineProgram();
  MachineProgram(const MachineProgram&) = delete;
  MachineProgram& operator=(const MachineProgram&) = delete;

  const std::vector<Declaration>& inputs() const { return inputs_; }
  const std::vector<Declaration>& scalars() const { return scalars_; }
  const std::vector<Declaration>& outputs() const { return outputs_; }
  // By output: the input whose memory it may reuse, or -1.
  const std::vector<int32_t>& aliases() const { return aliases_; }
  // For each kernel in order, the calls of the trace that it computes, the costliest first. Views
  // have no numbers: call 2 is the third call that computes.
  const std::vector<std::vector<int64_t>>& kernel_calls() const { return kernel_calls_; }
  // Bytes of the scratch memory in DDR that a run needs.
  size_t arena_bytes() const { return arena_bytes_; }

  // Returns how long the last run took; the greatest duration before the first one has ended. It
  // decides which thread runs a program.
  std::chrono::nanoseconds last_time() const { return last_time_.load(std::memory_order_relaxed); }
  // Whether a thread waited for results right after the last launch. Decides the same.
  bool is_awaited() const { return is_awaited_.load(std::memory_order_relaxed); }
  void set_awaited(bool awaited) const { is_awaited_.store(awaited, std::memory_order_relaxed); }

  // Runs the program and waits for its end. The calling thread runs a core meanwhile, if the
  // machine allows that, unless a signal might have to interrupt the run (`by`). Pointers are by
  // argument number; `arena` has arena_bytes. Throws MachineFault or MachineInterrupted, or
  // rethrows a signal handler's exception. `spans` receives those that the machine has recorded; it
  // may be null.
  void run(
      const std::vector<void*>& inputs, const std::vector<void*>& outputs,
      const std::vector<uint64_t>& scalars, void* arena, InterruptedBy by,
      std::vector<KernelSpan>* spans = nullptr) const;

 private:
  void* handle_;
  std::vector<Declaration> inputs_, scalars_, outputs_;
  size_t arena_bytes_;
  std::vector<int32_t> aliases_;
  std::vector<std::vector<int64_t>> kernel_calls_;
  mutable std::atomic<std::chrono::nanoseconds> last_time_{std::chrono::nanoseconds::max()};
  mutable std::atomic<bool> is_awaited_{false};
};

// Loads an image. Throws std::runtime_error if no machine is open or the image is invalid.
std::unique_ptr<MachineProgram> load_program(const std::string& image);

} // namespace ftm
