// LSTM and GRU cells. For devices other than the CPU, ATen calls fused kernels, whose workspace
// each device defines. Here they are composed of recorded ops, which the compiler fuses.
#include "nn/recurrent_steps.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <torch/library.h>

#include <tuple>

namespace ftm {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

Tensor with_bias(const Tensor& gates, const OptionalTensor& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

// Returns (hidden state, cell state, workspace). The workspace has the activated gates: input,
// forget, cell, output.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(
    const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cell,
    const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const auto gates =
      (with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias)).chunk(4, 1);
  const auto input = gates[0].sigmoid();
  const auto forget = gates[1].sigmoid();
  const auto candidate = gates[2].tanh();
  const auto output = gates[3].sigmoid();
  auto next_cell = forget * cell + input * candidate;
  auto hidden = output * next_cell.tanh();
  return {hidden, next_cell, at::cat({input, forget, candidate, output}, 1)};
}

// Returns the gradients of (gates, cell state, each bias).
std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(
    const OptionalTensor& grad_hidden, const OptionalTensor& grad_cell, const Tensor& cell,
    const Tensor& next_cell, const Tensor& workspace, bool has_bias) {
  const bool has_grad_hidden = grad_hidden && grad_hidden->defined();
  const bool has_grad_cell = grad_cell && grad_cell->defined();
  if (!has_grad_hidden && !has_grad_cell) {
    return {};
  }
  const auto gates = workspace.chunk(4, 1);
  const auto& [input, forget, candidate, output] = std::tie(gates[0], gates[1], gates[2], gates[3]);
  const auto activated_cell = next_cell.tanh();
  const auto hidden = has_grad_hidden ? *grad_hidden : next_cell.new_zeros(next_cell.sizes());
  auto grad_next_cell = hidden * output * tanh_slope(activated_cell);
  grad_next_cell = has_grad_cell ? grad_next_cell + *grad_cell : grad_next_cell;
  auto grad_gates = at::cat(
      {grad_next_cell * candidate * sigmoid_slope(input),
       grad_next_cell * cell * sigmoid_slope(forget),
       grad_next_cell * input * tanh_slope(candidate),
       hidden * activated_cell * sigmoid_slope(output)},
      1);
  auto grad_bias = has_bias ? grad_gates.sum(0) : Tensor();
  return {grad_gates, grad_next_cell * forget, grad_bias};
}

// Returns (hidden state, workspace). The workspace has the activated reset, update and new gates,
// the old hidden state, and the hidden part of the new gate.
std::tuple<Tensor, Tensor> gru_cell(
    const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hidden,
    const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const auto from_input = with_bias(input_gates, input_bias).chunk(3, 1);
  const auto from_hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const auto reset = (from_input[0] + from_hidden[0]).sigmoid();
  const auto update = (from_input[1] + from_hidden[1]).sigmoid();
  const auto fresh = (from_input[2] + reset * from_hidden[2]).tanh();
  auto next = fresh + update * (hidden - fresh);
  return {next, at::cat({reset, update, fresh, hidden, from_hidden[2]}, 1)};
}

// Returns the gradients of (input gates, hidden gates, hidden state, input bias, hidden bias).
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(
    const Tensor& grad, const Tensor& workspace, bool has_bias) {
  const auto parts = workspace.chunk(5, 1);
  const auto& [reset, update, fresh, hidden, from_hidden] =
      std::tie(parts[0], parts[1], parts[2], parts[3], parts[4]);
  const auto grad_fresh = grad * (1 - update) * tanh_slope(fresh);
  const auto grad_update = grad * (hidden - fresh) * sigmoid_slope(update);
  const auto grad_reset = grad_fresh * from_hidden * sigmoid_slope(reset);
  auto grad_input_gates = at::cat({grad_reset, grad_update, grad_fresh}, 1);
  auto grad_hidden_gates = at::cat({grad_reset, grad_update, grad_fresh * reset}, 1);
  auto grad_input_bias = has_bias ? grad_input_gates.sum(0) : Tensor();
  auto grad_hidden_bias = has_bias ? grad_hidden_gates.sum(0) : Tensor();
  return {grad_input_gates, grad_hidden_gates, grad * update, grad_input_bias, grad_hidden_bias};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  library.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  library.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  library.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

} // namespace ftm
