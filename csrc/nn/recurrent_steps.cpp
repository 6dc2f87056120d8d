#include "nn/recurrent_steps.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/threshold_backward.h>
#include <torch/library.h>

#include <vector>

namespace ftm {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

namespace {

using Rows = std::vector<Tensor>;

} // namespace

std::tuple<Tensor, Tensor, Tensor> lstm_by_steps(
    const Tensor& gates, const Tensor& hidden, const Tensor& cell, const Tensor& weight,
    bool backwards) {
  const Steps steps{gates.size(0), backwards};
  Rows states(steps.count + 1), cells(steps.count + 1), activations(steps.count);
  states[steps.before(0)] = hidden;
  cells[steps.before(0)] = cell;
  for (int64_t k = 0; k < steps.count; ++k) {
    const auto parts =
        (gates[steps.input(k)] + states[steps.before(k)].matmul(weight.t())).chunk(4, 1);
    const auto input = parts[0].sigmoid(), forget = parts[1].sigmoid(), candidate = parts[2].tanh(),
               output = parts[3].sigmoid();
    const auto next = forget * cells[steps.before(k)] + input * candidate;
    cells[steps.after(k)] = next;
    states[steps.after(k)] = output * next.tanh();
    activations[steps.input(k)] = at::cat({input, forget, candidate, output}, 1);
  }
  return {at::stack(states), at::stack(cells), at::stack(activations)};
}

std::tuple<Tensor, Tensor> gru_by_steps(
    const Tensor& gates, const Tensor& hidden, const Tensor& weight, const OptionalTensor& bias,
    bool backwards) {
  const Steps steps{gates.size(0), backwards};
  Rows states(steps.count + 1), activations(steps.count);
  states[steps.before(0)] = hidden;
  for (int64_t k = 0; k < steps.count; ++k) {
    const auto& before = states[steps.before(k)];
    const auto from_input = gates[steps.input(k)].chunk(3, 1);
    const auto product = before.matmul(weight.t());
    const auto recurrent = (bias && bias->defined() ? product + *bias : product).chunk(3, 1);
    const auto reset = (from_input[0] + recurrent[0]).sigmoid(),
               update = (from_input[1] + recurrent[1]).sigmoid();
    const auto candidate = (from_input[2] + reset * recurrent[2]).tanh();
    states[steps.after(k)] = candidate + update * (before - candidate);
    activations[steps.input(k)] = at::cat({reset, update, candidate, recurrent[2]}, 1);
  }
  return {at::stack(states), at::stack(activations)};
}

Tensor rnn_by_steps(
    const Tensor& gates, const Tensor& hidden, const Tensor& weight, bool relu, bool backwards) {
  const Steps steps{gates.size(0), backwards};
  Rows states(steps.count + 1);
  states[steps.before(0)] = hidden;
  for (int64_t k = 0; k < steps.count; ++k) {
    const auto sum = gates[steps.input(k)] + states[steps.before(k)].matmul(weight.t());
    states[steps.after(k)] = relu ? sum.relu() : sum.tanh();
  }
  return at::stack(states);
}

std::tuple<Tensor, Tensor, Tensor> lstm_backward_by_steps(
    const Tensor& grad, const Tensor& grad_hidden, const Tensor& grad_cell, const Tensor& cells,
    const Tensor& activations, const Tensor& weight, bool backwards) {
  const Steps steps{grad.size(0), backwards};
  Rows gates(steps.count);
  Tensor hidden = grad_hidden, cell = grad_cell;
  for (int64_t k = steps.count; k-- > 0;) {
    const auto parts = activations[steps.input(k)].chunk(4, 1);
    const auto &input = parts[0], &forget = parts[1], &candidate = parts[2], &output = parts[3];
    const auto activated_cell = cells[steps.after(k)].tanh();
    hidden = grad[steps.input(k)] + hidden;
    cell = cell + hidden * output * tanh_slope(activated_cell);
    gates[steps.input(k)] = at::cat(
        {cell * candidate * sigmoid_slope(input),
         cell * cells[steps.before(k)] * sigmoid_slope(forget),
         cell * input * tanh_slope(candidate), hidden * activated_cell * sigmoid_slope(output)},
        1);
    hidden = gates[steps.input(k)].matmul(weight);
    cell = cell * forget;
  }
  return {at::stack(gates), hidden, cell};
}

std::tuple<Tensor, Tensor, Tensor> gru_backward_by_steps(
    const Tensor& grad, const Tensor& grad_hidden, const Tensor& states, const Tensor& activations,
    const Tensor& weight, bool backwards) {
  const Steps steps{grad.size(0), backwards};
  Rows gates(steps.count), recurrent(steps.count);
  Tensor hidden = grad_hidden;
  for (int64_t k = steps.count; k-- > 0;) {
    const auto parts = activations[steps.input(k)].chunk(4, 1);
    const auto &reset = parts[0], &update = parts[1], &candidate = parts[2];
    hidden = grad[steps.input(k)] + hidden;
    const auto grad_candidate = hidden * (1 - update) * tanh_slope(candidate);
    const auto grad_update = hidden * (states[steps.before(k)] - candidate) * sigmoid_slope(update);
    const auto grad_reset = grad_candidate * parts[3] * sigmoid_slope(reset);
    gates[steps.input(k)] = at::cat({grad_reset, grad_update, grad_candidate}, 1);
    recurrent[steps.input(k)] = at::cat({grad_reset, grad_update, grad_candidate * reset}, 1);
    hidden = hidden * update + recurrent[steps.input(k)].matmul(weight);
  }
  return {at::stack(gates), at::stack(recurrent), hidden};
}

std::tuple<Tensor, Tensor> rnn_backward_by_steps(
    const Tensor& grad, const Tensor& grad_hidden, const Tensor& states, const Tensor& weight,
    bool relu, bool backwards) {
  const Steps steps{grad.size(0), backwards};
  Rows gates(steps.count);
  Tensor hidden = grad_hidden;
  for (int64_t k = steps.count; k-- > 0;) {
    const auto after = states[steps.after(k)];
    hidden = grad[steps.input(k)] + hidden;
    gates[steps.input(k)] =
        relu ? at::threshold_backward(hidden, after, 0) : hidden * tanh_slope(after);
    hidden = gates[steps.input(k)].matmul(weight);
  }
  return {at::stack(gates), hidden};
}

namespace {

Tensor like(const Tensor& gates, at::IntArrayRef sizes) {
  return gates.new_empty(sizes);
}

// Returns [T + 1, B, H] for gates of T steps.
Tensor states_like(const Tensor& gates, const Tensor& hidden) {
  return like(gates, {gates.size(0) + 1, hidden.size(0), hidden.size(1)});
}

std::tuple<Tensor, Tensor, Tensor> lstm_shapes(
    const Tensor& gates, const Tensor& hidden, const Tensor&, const Tensor&, bool) {
  return {states_like(gates, hidden), states_like(gates, hidden), like(gates, gates.sizes())};
}

std::tuple<Tensor, Tensor> gru_shapes(
    const Tensor& gates, const Tensor& hidden, const Tensor&, const OptionalTensor&, bool) {
  return {
      states_like(gates, hidden), like(gates, {gates.size(0), gates.size(1), 4 * hidden.size(1)})};
}

Tensor rnn_shapes(const Tensor& gates, const Tensor& hidden, const Tensor&, bool, bool) {
  return states_like(gates, hidden);
}

std::tuple<Tensor, Tensor, Tensor> lstm_backward_shapes(
    const Tensor&, const Tensor& grad_hidden, const Tensor& grad_cell, const Tensor&,
    const Tensor& activations, const Tensor&, bool) {
  return {
      like(activations, activations.sizes()), like(activations, grad_hidden.sizes()),
      like(activations, grad_cell.sizes())};
}

std::tuple<Tensor, Tensor, Tensor> gru_backward_shapes(
    const Tensor& grad, const Tensor& grad_hidden, const Tensor&, const Tensor&, const Tensor&,
    bool) {
  const at::DimVector gates{grad.size(0), grad.size(1), 3 * grad.size(2)};
  return {like(grad, gates), like(grad, gates), like(grad, grad_hidden.sizes())};
}

std::tuple<Tensor, Tensor> rnn_backward_shapes(
    const Tensor& grad, const Tensor& grad_hidden, const Tensor&, const Tensor&, bool, bool) {
  return {like(grad, grad.sizes()), like(grad, grad_hidden.sizes())};
}

} // namespace

TORCH_LIBRARY(ftm, library) {
  library.def(
      "lstm_forward(Tensor gates, Tensor hidden, Tensor cell, Tensor weight, bool backwards) -> "
      "(Tensor, Tensor, "
      "Tensor)");
  library.def(
      "gru_forward(Tensor gates, Tensor hidden, Tensor weight, Tensor? bias, bool backwards) -> "
      "(Tensor, Tensor)");
  library.def(
      "rnn_forward(Tensor gates, Tensor hidden, Tensor weight, bool relu, bool backwards) -> "
      "Tensor");
  library.def(
      "lstm_backward(Tensor grad, Tensor grad_hidden, Tensor grad_cell, Tensor cells, Tensor kept, "
      "Tensor weight, "
      "bool backwards) -> (Tensor, Tensor, Tensor)");
  library.def(
      "gru_backward(Tensor grad, Tensor grad_hidden, Tensor states, Tensor kept, Tensor weight, "
      "bool backwards) -> "
      "(Tensor, Tensor, Tensor)");
  library.def(
      "rnn_backward(Tensor grad, Tensor grad_hidden, Tensor states, Tensor weight, bool relu, bool "
      "backwards) -> "
      "(Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(ftm, CPU, library) {
  library.impl("lstm_forward", TORCH_FN(lstm_by_steps));
  library.impl("gru_forward", TORCH_FN(gru_by_steps));
  library.impl("rnn_forward", TORCH_FN(rnn_by_steps));
  library.impl("lstm_backward", TORCH_FN(lstm_backward_by_steps));
  library.impl("gru_backward", TORCH_FN(gru_backward_by_steps));
  library.impl("rnn_backward", TORCH_FN(rnn_backward_by_steps));
}

TORCH_LIBRARY_IMPL(ftm, Meta, library) {
  library.impl("lstm_forward", TORCH_FN(lstm_shapes));
  library.impl("gru_forward", TORCH_FN(gru_shapes));
  library.impl("rnn_forward", TORCH_FN(rnn_shapes));
  library.impl("lstm_backward", TORCH_FN(lstm_backward_shapes));
  library.impl("gru_backward", TORCH_FN(gru_backward_shapes));
  library.impl("rnn_backward", TORCH_FN(rnn_backward_shapes));
}

} // namespace ftm
