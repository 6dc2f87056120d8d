// One direction of a recurrent layer as an op that is a loop over the steps, with its gradient.
#pragma once

#include <torch/autograd.h>

namespace ftm::recurrent {

enum class Kind { kLstm, kGru, kTanh, kRelu };

// What a direction computes with. bias: that of the recurrent part of a GRU; of other kinds it is
// among the gates.
struct Direction {
  Kind kind;
  at::Tensor weight;
  std::optional<at::Tensor> bias;
  bool backwards;
  bool by_steps; // of ATen's ops, which can be differentiated in all ways
};

// gates: [T, B, gates * H], what the inputs contribute; first: hidden state, and cell state of an
// LSTM, [B, H]. The states after each step, in the order of the inputs, then the last states.
torch::autograd::variable_list run(
    const Direction& direction, const at::Tensor& gates, at::TensorList first);

} // namespace ftm::recurrent
