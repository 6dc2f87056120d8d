#include "kernels/recurrent.h"

#include "kernels/recurrent_steps.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>

namespace ftm::recurrent {

using at::Tensor;
using torch::autograd::variable_list;

namespace {

using OptionalTensor = std::optional<Tensor>;
using torch::autograd::AutogradContext;

// The op `ftm::name`, called below autograd.
template <typename Signature>
c10::TypedOperatorHandle<Signature> op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").template typed<Signature>();
}

Tensor zeros_unless_defined(const Tensor& grad, const Tensor& like) {
  return grad.defined() ? grad : at::zeros_like(like);
}

// The states after each step, of all of them; and, for the products of the weights' gradient, the
// states before.
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

// Second derivatives: the layer once more, of ops that can be differentiated.
variable_list differentiable(
    const variable_list& inputs, const std::function<variable_list(const variable_list&)>& layer,
    const variable_list& grads) {
  const at::AutoGradMode recording(true);
  const auto outputs = layer(inputs);
  variable_list given, made;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (grads[k].defined()) {
      given.push_back(grads[k]);
      made.push_back(outputs[k]);
    }
  }
  variable_list wanted;
  for (const auto& input : inputs) {
    if (input.defined() && input.requires_grad()) {
      wanted.push_back(input);
    }
  }
  const auto found = torch::autograd::grad(
      made, wanted, given, /*retain_graph=*/true, /*create_graph=*/true, /*allow_unused=*/true);
  variable_list all;
  size_t next = 0;
  for (const auto& input : inputs) {
    all.push_back(input.defined() && input.requires_grad() ? found[next++] : Tensor());
  }
  return all;
}

// --- LSTM
// ------------------------------------------------------------------------------------------------------------

using LstmForward = std::tuple<Tensor, Tensor, Tensor>(
    const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool);
using LstmBackward = std::tuple<Tensor, Tensor, Tensor>(
    const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool);

variable_list lstm_results(const Tensor& states, const Tensor& cells, bool backwards) {
  return {
      after_steps(states, backwards).clone(), last_step(states, backwards),
      last_step(cells, backwards)};
}

// (states after each step, last hidden state, last cell state) of one direction.
struct Lstm : torch::autograd::Function<Lstm> {
  static variable_list forward(
      AutogradContext* context, const Tensor& gates, const Tensor& hidden, const Tensor& cell,
      const Tensor& weight, bool backwards) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [states, cells, kept] =
        op<LstmForward>("ftm::lstm_forward").call(gates, hidden, cell, weight, backwards);
    context->save_for_backward({gates, hidden, cell, weight, states, cells, kept});
    context->saved_data["backwards"] = backwards;
    return lstm_results(states, cells, backwards);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const auto &gates = saved[0], &weight = saved[3], &states = saved[4], &cells = saved[5],
               &kept = saved[6];
    const bool backwards = context->saved_data["backwards"].toBool();
    if (at::GradMode::is_enabled()) {
      auto all = differentiable(
          {gates, saved[1], saved[2], weight},
          [&](const variable_list& x) {
            const auto made = lstm_by_steps(x[0], x[1], x[2], x[3], backwards);
            return lstm_results(std::get<0>(made), std::get<1>(made), backwards);
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
                cells, kept, weight, backwards);
    return {
        grad_gates, grad_hidden, grad_cell, weight_gradient(grad_gates, states, backwards),
        Tensor()};
  }
};

// --- GRU
// -------------------------------------------------------------------------------------------------------------

using GruForward = std::tuple<Tensor, Tensor>(
    const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&, bool);
using GruBackward = std::tuple<Tensor, Tensor, Tensor>(
    const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool);

variable_list results(const Tensor& states, bool backwards) {
  return {after_steps(states, backwards).clone(), last_step(states, backwards)};
}

// (states after each step, last hidden state) of one direction.
struct Gru : torch::autograd::Function<Gru> {
  static variable_list forward(
      AutogradContext* context, const Tensor& gates, const Tensor& hidden, const Tensor& weight,
      const OptionalTensor& bias, bool backwards) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [states, kept] =
        op<GruForward>("ftm::gru_forward").call(gates, hidden, weight, bias, backwards);
    context->save_for_backward({gates, hidden, weight, bias.value_or(Tensor()), states, kept});
    context->saved_data["backwards"] = backwards;
    return results(states, backwards);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const auto &weight = saved[2], &bias = saved[3], &states = saved[4], &kept = saved[5];
    const bool backwards = context->saved_data["backwards"].toBool();
    if (at::GradMode::is_enabled()) {
      auto all = differentiable(
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
                zeros_unless_defined(grads[1], saved[1]), states, kept, weight, backwards);
    const auto grad_bias = bias.defined() ? grad_recurrent.sum({0, 1}) : Tensor();
    return {
        grad_gates, grad_hidden, weight_gradient(grad_recurrent, states, backwards), grad_bias,
        Tensor()};
  }
};

// --- plain
// -----------------------------------------------------------------------------------------------------------

using RnnForward = Tensor(const Tensor&, const Tensor&, const Tensor&, bool, bool);
using RnnBackward = std::tuple<Tensor, Tensor>(
    const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool, bool);

// (states after each step, last hidden state) of one direction.
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
      auto all = differentiable(
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
      const auto made = lstm_by_steps(gates, first[0], first[1], weight, backwards);
      return lstm_results(std::get<0>(made), std::get<1>(made), backwards);
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
