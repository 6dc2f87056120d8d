#include "capture/graph_call.h"

#include <ATen/Context.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

namespace ftm {
namespace {

using torch::autograd::variable_list;

constexpr const char* kTwice =
    "torch.compile with aot_autograd does not currently support double backward";

// Gradients that were asked for with create_graph=True: to differentiate them is an error, not
// zero.
void refuse_second_derivatives(variable_list& gradients) {
  for (auto& gradient : gradients) {
    if (gradient.defined() && torch::autograd::isDifferentiableType(gradient.scalar_type())) {
      gradient = gradient.detach();
      auto refuses =
          c10::make_intrusive<torch::autograd::Error>(kTwice, torch::autograd::edge_list{});
      refuses->add_input_metadata(gradient);
      torch::autograd::impl::set_gradient_edge(gradient, {std::move(refuses), 0});
    }
  }
}

} // namespace

std::vector<at::Tensor> GraphCall::operator()(std::vector<at::Tensor> inputs) const {
  const at::AutoGradMode off(false);
  std::vector<at::Tensor> taken;
  taken.reserve(takes.size());
  for (const int64_t source : takes) {
    taken.push_back(source < 0 ? constants[-1 - source] : inputs[source]);
  }
  std::vector<at::Tensor> given(gives.size());
  for (size_t i = 0; i < gives.size(); ++i) {
    const std::optional<int64_t>& source = gives[i];
    if (source && *source < 0) {
      given[i] = inputs[-1 - *source];
    }
  }
  inputs.clear(); // the program may take over what nobody else needs
  const auto outputs = program->launch(std::move(taken));
  for (size_t i = 0; i < gives.size(); ++i) {
    const std::optional<int64_t>& source = gives[i];
    if (source && *source >= 0) {
      given[i] = outputs[*source];
    }
  }
  return given;
}

struct AutogradCall::Graphs {
  int64_t address; // its own
  const GraphCall forward, backward;
  const std::vector<bool> differentiable;
  const bool deterministic;

  static const Graphs& of(const at::Tensor& tensor) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): autograd hands tensors on, so the address travels
    // in one
    return *reinterpret_cast<const Graphs*>(*tensor.const_data_ptr<int64_t>());
  }
};

struct AutogradCall::Function final : torch::autograd::Function<AutogradCall::Function> {
  // others: gets the results that have no gradient, in their places.
  static variable_list forward(
      torch::autograd::AutogradContext* context, const AutogradCall* call, at::TensorList inputs,
      std::vector<at::Tensor>* others) {
    const auto& graphs = Graphs::of(call->graphs_);
    auto given = graphs.forward(inputs.vec());
    const auto results = static_cast<ptrdiff_t>(graphs.differentiable.size());
    context->save_for_backward({given.begin() + results, given.end()});
    context->saved_data["graphs"] = call->graphs_;
    given.resize(results);
    variable_list differentiable;
    for (ptrdiff_t i = 0; i < results; ++i) {
      if (graphs.differentiable[i]) {
        differentiable.push_back(std::move(given[i]));
      }
    }
    *others = std::move(given);
    return differentiable;
  }

  static variable_list backward(
      torch::autograd::AutogradContext* context, const variable_list& gradients) {
    const at::Tensor held = context->saved_data.at("graphs").toTensor();
    const auto& graphs = Graphs::of(held);
    TORCH_CHECK(
        graphs.deterministic || !at::globalContext().deterministicAlgorithms(),
        "This compiled backward function is being run with "
        "torch.use_deterministic_algorithms(True), but it was "
        "previously generated during the forward function while "
        "torch.use_deterministic_algorithms(False) was set.");
    auto inputs = context->get_saved_variables();
    inputs.insert(inputs.end(), gradients.begin(), gradients.end());
    auto given = graphs.backward(std::move(inputs));
    if (at::GradMode::is_enabled()) {
      refuse_second_derivatives(given);
    }
    variable_list found(1); // no gradient of the call itself, nor of `others`
    found.insert(found.end(), given.begin(), given.end());
    found.emplace_back();
    return found;
  }
};

AutogradCall::AutogradCall(
    GraphCall forward, GraphCall backward, std::vector<bool> differentiable, bool deterministic) {
  TORCH_CHECK_VALUE(
      forward.gives.size() >= differentiable.size(), "the graph gives less than its results");
  auto* graphs = new Graphs{
      0, std::move(forward), std::move(backward), std::move(differentiable), deterministic};
  graphs->address = reinterpret_cast<int64_t>(graphs);
  graphs_ = at::from_blob(
      &graphs->address, {1}, [graphs](void*) { delete graphs; },
      at::TensorOptions().dtype(at::kLong));
}

std::vector<at::Tensor> AutogradCall::operator()(std::vector<at::Tensor> inputs) const {
  const auto& graphs = Graphs::of(graphs_);
  const auto& gradients = graphs.backward.gives;
  TORCH_CHECK_VALUE(
      inputs.size() == gradients.size(), "the graph takes ", gradients.size(), " tensors");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!gradients[i] && inputs[i].requires_grad()) {
      inputs[i] = inputs[i].detach(); // autograd is not to walk on where there is nothing to bring
    }
  }
  std::vector<at::Tensor> results;
  const at::AutoGradMode on(true);
  auto differentiable = Function::apply(this, at::TensorList(inputs), &results);
  size_t next = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (graphs.differentiable[i]) {
      results[i] = std::move(differentiable[next++]);
    }
  }
  return results;
}

} // namespace ftm
