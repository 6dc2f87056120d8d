#include "nn/recurrent_direction.h"

#include "nn/recurrent_steps.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/zeros_like.h>

#include <functional>

namespace ftm::recurrent {

using at::Tensor;
using torch::autograd::variable_list;

namespace {

using OptionalTensor = std::optional<Tensor>;
using torch::autograd::AutogradContext;

// Returns the op `ftm::name`, to be called below autograd.
template <typename Signature>
c10::TypedOperatorHandle<Signature> op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").template typed<Signature>();
}

Tensor zeros_unless_defined(const Tensor& grad, const Tensor& like) {
  return grad.defined() ? grad : at::zeros_like(like);
}

// The states after each step, and before each step (for the weights' gradient).
Tensor after_steps(const Tensor& states, bool backwards) {
  return states.narrow(0, backwards ? 0 : 1, states.size(0) - 1);
}
Tensor before_steps(const Tensor& states, bool backwards) {
  return states.narrow(0, backwards ? 1 : 0, states.size(0) - 1);
}
Tensor last_step(const Tensor& states, bool backwards) {
  return states.select(0, backwards ? 0 : states.size(0) - 1).clone();
}

Tensor weight_gradient(const Tensor& gates, const Tensor& states, bool backwards) {
  return gates.flatten(0, 1).t().mm(before_steps(states, backwards).flatten(0, 1));
}

// Computes gradients that can be differentiated again, by running the layer step by step.
variable_list differentiable_gradients(
    const variable_list& inputs, const std::function<variable_list(const variable_list&)>& layer,
    const variable_list& grads) {
  const at::AutoGradMode recording(true);
  const auto outputs = layer(inputs);
  variable_list output_grads, used_outputs;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (grads[k].defined()) {
      output_grads.push_back(grads[k]);
      used_outputs.push_back(outputs[k]);
    }
  }
  variable_list differentiable_inputs;
  for (const auto& input : inputs) {
    if (input.defined() && input.requires_grad()) {
      differentiable_inputs.push_back(input);
    }
  }
  const auto computed = torch::autograd::grad(
      used_outputs, differentiable_inputs, output_grads, /*retain_graph=*/true,
      /*create_graph=*/true, /*allow_unused=*/true);
  variable_list all;
  size_t next = 0;
  for (const auto& input : inputs) {
    all.push_back(input.defined() && input.requires_grad() ? computed[next++] : Tensor());
  }
  return all;
}

// --- LSTM ---

using LstmForward = std::tuple<Tensor, Tensor, Tensor>(
    const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool);
using LstmBackward = std::tuple<Tensor, Tensor, Tensor>(
    const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool);

variable_list lstm_results(const Tensor& states, const Tensor& cells, bool backwards) {
  return {
      after_steps(states, backwards).clone(), last_step(states, backwards),
      last_step(cells, backwards)};
}

// One direction. Returns (states after each step, last hidden state, last cell state).
struct Lstm : torch::autograd::Function<Lstm> {
  static variable_list forward(
      AutogradContext* context, const Tensor& gates, const Tensor& hidden, const Tensor& cell,
      const Tensor& weight, bool backwards) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [states, cells, activations] =
        op<LstmForward>("ftm::lstm_forward").call(gates, hidden, cell, weight, backwards);
    context->save_for_backward({gates, hidden, cell, weight, states, cells, activations});
    context->saved_data["backwards"] = backwards;
    return lstm_results(states, cells, backwards);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const auto &gates = saved[0], &weight = saved[3], &states = saved[4], &cells = saved[5],
               &activations = saved[6];
    const bool backwards = context->saved_data["backwards"].toBool();
    if (at::GradMode::is_enabled()) {
      auto all = differentiable_gradients(
          {gates, saved[1], saved[2], weight},
          [&](const variable_list& x) {
            const auto results = lstm_by_steps(x[0], x[1], x[2], x[3], backwards);
            return lstm_results(std::get<0>(results), std::get<1>(results), backwards);
          },
          grads);
      all.emplace_back();
      return all;
    }
    const auto [grad_gates, grad_hidden, grad_cell] =
        op<LstmBackward>("ftm::lstm_backward")
            .call(
                zeros_unless_defined(grads[0], after_steps(states, backwards)),
                zeros_unless_defined(grads[1], saved[1]), zeros_unless_defined(grads[2], saved[2]),
                cells, activations, weight, backwards);
    return {
        grad_gates, grad_hidden, grad_cell, weight_gradient(grad_gates, states, backwards),
        Tensor()};
  }
};

// --- GRU ---

using GruForward = std::tuple<Tensor, Tensor>(
    const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&, bool);
using GruBackward = std::tuple<Tensor, Tensor, Tensor>(
    const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool);

variable_list results(const Tensor& states, bool backwards) {
  return {after_steps(states, backwards).clone(), last_step(states, backwards)};
}

// One direction. Returns (states after each step, last hidden state).
struct Gru : torch::autograd::Function<Gru> {
  static variable_list forward(
      AutogradContext* context, const Tensor& gates, const Tensor& hidden, const Tensor& weight,
      const OptionalTensor& bias, bool backwards) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [states, activations] =
        op<GruForward>("ftm::gru_forward").call(gates, hidden, weight, bias, backwards);
    context->save_for_backward(
        {gates, hidden, weight, bias.value_or(Tensor()), states, activations});
    context->saved_data["backwards"] = backwards;
    return results(states, backwards);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const auto &weight = saved[2], &bias = saved[3], &states = saved[4], &activations = saved[5];
    const bool backwards = context->saved_data["backwards"].toBool();
    if (at::GradMode::is_enabled()) {
      auto all = differentiable_gradients(
          {saved[0], saved[1], weight, bias},
          [&](const variable_list& x) {
            return results(std::get<0>(gru_by_steps(x[0], x[1], x[2], x[3], backwards)), backwards);
          },
          grads);
      all.emplace_back();
      return all;
    }
    const auto [grad_gates, grad_recurrent, grad_hidden] =
        op<GruBackward>("ftm::gru_backward")
            .call(
                zeros_unless_defined(grads[0], after_steps(states, backwards)),
                zeros_unless_defined(grads[1], saved[1]), states, activations, weight, backwards);
    const auto grad_bias = bias.defined() ? grad_recurrent.sum({0, 1}) : Tensor();
    return {
        grad_gates, grad_hidden, weight_gradient(grad_recurrent, states, backwards), grad_bias,
        Tensor()};
  }
};

// --- RNN ---

using RnnForward = Tensor(const Tensor&, const Tensor&, const Tensor&, bool, bool);
using RnnBackward = std::tuple<Tensor, Tensor>(
    const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool, bool);

// One direction. Returns (states after each step, last hidden state).
struct Rnn : torch::autograd::Function<Rnn> {
  static variable_list forward(
      AutogradContext* context, const Tensor& gates, const Tensor& hidden, const Tensor& weight,
      bool relu, bool backwards) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto states =
        op<RnnForward>("ftm::rnn_forward").call(gates, hidden, weight, relu, backwards);
    context->save_for_backward({gates, hidden, weight, states});
    context->saved_data["relu"] = relu;
    context->saved_data["backwards"] = backwards;
    return results(states, backwards);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const auto &weight = saved[2], &states = saved[3];
    const bool relu = context->saved_data["relu"].toBool(),
               backwards = context->saved_data["backwards"].toBool();
    if (at::GradMode::is_enabled()) {
      auto all = differentiable_gradients(
          {saved[0], saved[1], weight},
          [&](const variable_list& x) {
            return results(rnn_by_steps(x[0], x[1], x[2], relu, backwards), backwards);
          },
          grads);
      all.insert(all.end(), 2, Tensor());
      return all;
    }
    const auto [grad_gates, grad_hidden] =
        op<RnnBackward>("ftm::rnn_backward")
            .call(
                zeros_unless_defined(grads[0], after_steps(states, backwards)),
                zeros_unless_defined(grads[1], saved[1]), states, weight, relu, backwards);
    return {
        grad_gates, grad_hidden, weight_gradient(grad_gates, states, backwards), Tensor(),
        Tensor()};
  }
};

} // namespace

variable_list run(const Direction& direction, const Tensor& gates, at::TensorList first) {
  const auto& [kind, weight, bias, backwards, by_steps] = direction;
  const bool relu = kind == Kind::kRelu;
  switch (kind) {
    case Kind::kLstm: {
      if (!by_steps) {
        return Lstm::apply(gates, first[0], first[1], weight, backwards);
      }
      const auto states = lstm_by_steps(gates, first[0], first[1], weight, backwards);
      return lstm_results(std::get<0>(states), std::get<1>(states), backwards);
    }
    case Kind::kGru:
      return by_steps ? results(
                            std::get<0>(gru_by_steps(gates, first[0], weight, bias, backwards)),
                            backwards)
                      : Gru::apply(gates, first[0], weight, bias, backwards);
    default:
      return by_steps ? results(rnn_by_steps(gates, first[0], weight, relu, backwards), backwards)
                      : Rnn::apply(gates, first[0], weight, relu, backwards);
  }
}

} // namespace ftm::recurrent
