// One direction of a recurrent layer, step by step with ATen's ops. This defines the ops
// `ftm::lstm_forward` etc. It runs on any device and can be differentiated. Compiled programs have
// a loop instead (backend/ftm_backend/frontend/ops/nn/recurrent.py).
#pragma once

#include <ATen/TensorOperators.h>

#include <tuple>

namespace ftm {

// Returns d sigmoid(x) / dx, from y = sigmoid(x).
inline at::Tensor sigmoid_slope(const at::Tensor& y) {
  return y * (1 - y);
}

// Returns d tanh(x) / dx, from y = tanh(x).
inline at::Tensor tanh_slope(const at::Tensor& y) {
  return 1 - y * y;
}

// The index of step k's input (of T), and of the states before and after it (of T + 1).
struct Steps {
  int64_t count;
  bool backwards;
  int64_t input(int64_t k) const { return backwards ? count - 1 - k : k; }
  int64_t before(int64_t k) const { return backwards ? count - k : k; }
  int64_t after(int64_t k) const { return backwards ? count - 1 - k : k + 1; }
};

// Arguments: gates [T, B, gates * H] is the inputs' contribution; hidden and cell are [B, H];
// weight is [gates * H, H]. States are [T + 1, B, H].

// Returns (hidden states, cell states, activated gates: input, forget, candidate, output).
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_by_steps(
    const at::Tensor& gates, const at::Tensor& hidden, const at::Tensor& cell,
    const at::Tensor& weight, bool backwards);
// Returns (hidden states, activations for the gradient: reset, update, candidate, and the recurrent
// part of the candidate).
std::tuple<at::Tensor, at::Tensor> gru_by_steps(
    const at::Tensor& gates, const at::Tensor& hidden, const at::Tensor& weight,
    const std::optional<at::Tensor>& bias, bool backwards);
// Returns the hidden states.
at::Tensor rnn_by_steps(
    const at::Tensor& gates, const at::Tensor& hidden, const at::Tensor& weight, bool relu,
    bool backwards);

// Returns the gradients of (gates, first hidden state, first cell state). `grad` is the gradient of
// the states after each step, [T, B, H].
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_backward_by_steps(
    const at::Tensor& grad, const at::Tensor& grad_hidden, const at::Tensor& grad_cell,
    const at::Tensor& cells, const at::Tensor& activations, const at::Tensor& weight,
    bool backwards);
// Returns the gradients of (gates, recurrent gates, first hidden state).
std::tuple<at::Tensor, at::Tensor, at::Tensor> gru_backward_by_steps(
    const at::Tensor& grad, const at::Tensor& grad_hidden, const at::Tensor& states,
    const at::Tensor& activations, const at::Tensor& weight, bool backwards);
// Returns the gradients of (gates, first hidden state).
std::tuple<at::Tensor, at::Tensor> rnn_backward_by_steps(
    const at::Tensor& grad, const at::Tensor& grad_hidden, const at::Tensor& states,
    const at::Tensor& weight, bool relu, bool backwards);

} // namespace ftm
