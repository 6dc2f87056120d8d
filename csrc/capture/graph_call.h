// A captured program as the function of an FX graph, and a pair of them as an autograd function.
#pragma once

#include "capture/capture.h"

#include <optional>

namespace ftm {

// Maps a graph's inputs to its outputs by running a program.
struct GraphCall {
  std::shared_ptr<CapturedProgram> program;
  // By input of the program: index of the graph's input, or -1 - k for constant k.
  std::vector<int64_t> input_sources;
  std::vector<at::Tensor> constants;
  // By output of the graph: index of the program's output, -1 - k for the graph's input k, or none
  // for None.
  std::vector<std::optional<int64_t>> output_sources;

  // Runs the program with autograd disabled. Returns undefined tensors for None. Throws as
  // CapturedProgram::launch.
  std::vector<at::Tensor> operator()(std::vector<at::Tensor> inputs) const;
};

// Does what AOTAutograd's wrappers do around a forward and a backward graph. The graphs' results
// share no memory; inputs that they write have no gradient. May be called without the GIL.
class AutogradCall {
 public:
  // `forward` returns the results, then the values saved for backward. `backward` takes the saved
  // values, then a gradient for each differentiable result; it returns a gradient or None for each
  // input of `forward`. `differentiable`: for each result, whether it has a gradient.
  // `deterministic`: whether PyTorch's deterministic mode was on when the graphs were made. Throws
  // ValueError if `forward` returns too few tensors.
  AutogradCall(
      GraphCall forward, GraphCall backward, std::vector<bool> differentiable, bool deterministic);

  // Runs the forward graph and records the backward graph with autograd. Throws ValueError for a
  // wrong number of inputs.
  std::vector<at::Tensor> operator()(std::vector<at::Tensor> inputs) const;

 private:
  struct Graphs;
  struct Function;

  std::shared_ptr<const Graphs> graphs_;
  at::Tensor handle_; // keeps the graphs while autograd nodes have it
};

} // namespace ftm
