// One collective, or one transfer between two processes, as a task of the launcher.
#pragma once

#include "execute/job.h"

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <functional>
#include <string>
#include <vector>

namespace ftm {

using Tensors = std::vector<at::Tensor>;
using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

// What a collective, or a message between two processes, does. Its tensors are either all on the
// device or all on the CPU.
struct Collective {
  std::string name; // as in torch.distributed
  c10d::OpType type = c10d::OpType::UNKNOWN;
  Tensors inputs{}; // read only
  Tensors outputs{};
  bool updates = false; // the outputs' old elements are read, too; then it has no inputs
  // Attributes of the recorded call: what it does (target/instructions/collective.py), and how it
  // reduces. Without a kind it is a task of the launcher.
  std::string kind{};
  std::string reduction{};
  // Whether `Work::wait` waits. Otherwise it returns at once, as for CUDA: later operations on the
  // outputs are ordered behind the collective anyway.
  bool blocks = false;
  bool is_message = false; // only two processes of the group take part
  // Starts the communication for dense CPU tensors in the inputs' and outputs' place.
  std::function<Works(Tensors& inputs, Tensors& outputs)> begin{};
  // Called with the same tensors when it has ended; may be null.
  std::function<void(Tensors& inputs, Tensors& outputs)> end{};
};

// Describes a failed collective of a group, for the error that is raised.
using Describe = std::function<std::string(const std::string& collective)>;

// Returns "all_reduce of Float[3], called at train.py:31", for messages. Takes the GIL.
std::string called_text(const Collective& collective);

// Launches what is pending, and enqueues the collective behind it. The outputs get values that the
// launcher computes later. Must not be called under the recorder's lock.
c10::intrusive_ptr<c10d::Work> enqueue_collective(
    Collective collective, int rank, Describe describe);

} // namespace ftm
