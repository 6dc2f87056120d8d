// A captured program as a graph's function, and a forward and a backward one as one function of
// autograd.
#pragma once

#include "capture/capture.h"

#include <optional>

namespace ftm {

// From the tensors that a graph takes to those that it gives.
struct GraphCall {
  std::shared_ptr<Captured> program;
  // For each input of the program: a number among the graph's inputs, or -1 - k for constant k.
  std::vector<int64_t> takes;
  std::vector<at::Tensor> constants;
  // What the graph gives: output k of the program, input k of the graph as it is for -1 - k, or
  // None.
  std::vector<std::optional<int64_t>> gives;

  // Undefined tensors for None. Autograd does not see it.
  std::vector<at::Tensor> operator()(std::vector<at::Tensor> inputs) const;
};

// What AOTAutograd's wrappers do around two graphs that take and give plain tensors. Results share
// no memory; inputs that the graphs write are theirs to write, and have no gradient. Safe without
// the GIL.
class AutogradCall {
 public:
  // forward: gives results, then what is kept for the gradients. backward: takes what was kept,
  // then a gradient for each result that has one; gives a gradient, or None, for each input of
  // forward. differentiable: for each result whether it has a gradient. deterministic: whether
  // PyTorch's mode of that name was on when the graphs were made.
  AutogradCall(
      GraphCall forward, GraphCall backward, std::vector<bool> differentiable, bool deterministic);

  std::vector<at::Tensor> operator()(std::vector<at::Tensor> inputs) const;

 private:
  struct Graphs;
  struct Function;

  // Its storage owns the graphs, and it says where they are: what an autograd node keeps is tensors
  // and numbers, if compiled autograd is to take it up.
  at::Tensor graphs_;
};

} // namespace ftm
