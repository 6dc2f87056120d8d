// One direction of a recurrent layer, recorded as one op that loops over the steps, with its
// gradient.
#pragma once

#include <torch/autograd.h>

namespace ftm::recurrent {

enum class Kind { kLstm, kGru, kTanh, kRelu };

// The parameters of one direction. `bias` is that of a GRU's recurrent part; other kinds have
// theirs in the gates.
struct Direction {
  Kind kind;
  at::Tensor weight;
  std::optional<at::Tensor> bias;
  bool backwards;
  bool by_steps; // record ATen's ops for each step instead, which support all kinds of
                 // differentiation
};

// Runs a direction. `gates` is [T, B, gates * H], the inputs' contribution; `first` has the initial
// hidden state and, for an LSTM, cell state, [B, H]. Returns the states after each step, in the
// order of the inputs, then the last states.
torch::autograd::variable_list run(
    const Direction& direction, const at::Tensor& gates, at::TensorList first);

} // namespace ftm::recurrent
