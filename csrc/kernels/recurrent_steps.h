// One direction of a recurrent layer, step by step, of ATen's ops: what the ops `ftm::lstm_forward`
// and so on mean. Runs on any device and can be differentiated; compiled programs have a loop
// instead (frontend/ops/nn/recurrent.py).
#pragma once

#include <ATen/ATen.h>

#include <tuple>

namespace ftm {

// d sigmoid(x) / dx, from y = sigmoid(x).
inline at::Tensor sigmoid_slope(const at::Tensor& y) {
  return y * (1 - y);
}

// d tanh(x) / dx, from y = tanh(x).
inline at::Tensor tanh_slope(const at::Tensor& y) {
  return 1 - y * y;
}

// Rows of step k, of T in all: of inputs, and of the states before and after it, of which there are
// T + 1.
struct Steps {
  int64_t count;
  bool backwards;
  int64_t input(int64_t k) const { return backwards ? count - 1 - k : k; }
  int64_t before(int64_t k) const { return backwards ? count - k : k; }
  int64_t after(int64_t k) const { return backwards ? count - 1 - k : k + 1; }
};

// gates: [T, B, gates * H], what the inputs contribute. hidden, cell: [B, H]. weight: [gates * H,
// H]. States: [T + 1, B, H].

// (hidden states, cell states, gates after their activations: input, forget, candidate, output)
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_by_steps(
    const at::Tensor& gates, const at::Tensor& hidden, const at::Tensor& cell,
    const at::Tensor& weight, bool backwards);
// (hidden states, what the gradient needs: reset, update, candidate, the recurrent part of the
// candidate)
std::tuple<at::Tensor, at::Tensor> gru_by_steps(
    const at::Tensor& gates, const at::Tensor& hidden, const at::Tensor& weight,
    const std::optional<at::Tensor>& bias, bool backwards);
// Hidden states.
at::Tensor rnn_by_steps(
    const at::Tensor& gates, const at::Tensor& hidden, const at::Tensor& weight, bool relu,
    bool backwards);

// Gradients of (gates, first hidden state, first cell state); grad: of the states after each step,
// [T, B, H].
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_backward_by_steps(
    const at::Tensor& grad, const at::Tensor& grad_hidden, const at::Tensor& grad_cell,
    const at::Tensor& cells, const at::Tensor& kept, const at::Tensor& weight, bool backwards);
// Gradients of (gates, recurrent gates, first hidden state).
std::tuple<at::Tensor, at::Tensor, at::Tensor> gru_backward_by_steps(
    const at::Tensor& grad, const at::Tensor& grad_hidden, const at::Tensor& states,
    const at::Tensor& kept, const at::Tensor& weight, bool backwards);
// Gradients of (gates, first hidden state).
std::tuple<at::Tensor, at::Tensor> rnn_backward_by_steps(
    const at::Tensor& grad, const at::Tensor& grad_hidden, const at::Tensor& states,
    const at::Tensor& weight, bool relu, bool backwards);

} // namespace ftm
