#include "capture/graph_call.h"

#include "support/runtime.h"

#include <ATen/Context.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include <memory>
#include <mutex>
#include <unordered_map>

namespace ftm {
namespace {

using torch::autograd::variable_list;

constexpr const char* kNoDoubleBackward =
    "torch.compile with aot_autograd does not currently support double backward";

// Makes differentiating the gradients (create_graph=True) an error; otherwise their gradients would
// silently be zero.
void forbid_double_backward(variable_list& gradients) {
  for (auto& gradient : gradients) {
    if (gradient.defined() && torch::autograd::isDifferentiableType(gradient.scalar_type())) {
      gradient = gradient.detach();
      auto error = c10::make_intrusive<torch::autograd::Error>(
          kNoDoubleBackward, torch::autograd::edge_list{});
      error->add_input_metadata(gradient);
      torch::autograd::impl::set_gradient_edge(gradient, {std::move(error), 0});
    }
  }
}

} // namespace

std::vector<at::Tensor> GraphCall::operator()(std::vector<at::Tensor> inputs) const {
  const at::AutoGradMode off(false);
  std::vector<at::Tensor> program_inputs;
  program_inputs.reserve(input_sources.size());
  for (const int64_t source : input_sources) {
    program_inputs.push_back(source < 0 ? constants[-1 - source] : inputs[source]);
  }
  std::vector<at::Tensor> results(output_sources.size());
  for (size_t i = 0; i < output_sources.size(); ++i) {
    const std::optional<int64_t>& source = output_sources[i];
    if (source && *source < 0) {
      results[i] = inputs[-1 - *source];
    }
  }
  inputs.clear(); // the program may reuse the memory of inputs without other references
  const auto outputs = program->launch(std::move(program_inputs));
  for (size_t i = 0; i < output_sources.size(); ++i) {
    const std::optional<int64_t>& source = output_sources[i];
    if (source && *source >= 0) {
      results[i] = outputs[*source];
    }
  }
  return results;
}

struct AutogradCall::Graphs {
  const GraphCall forward, backward;
  const std::vector<bool> differentiable;
  const bool deterministic;
};

namespace {

// Graphs by number. An autograd node may only keep tensors and numbers, or compiled autograd
// rejects it. So a node keeps a tensor with the number, whose storage removes the graphs when it is
// freed.
template <typename Graphs>
class GraphTable {
 public:
  // Adds graphs and returns the tensor that keeps them.
  at::Tensor add(std::shared_ptr<const Graphs> graphs) {
    auto number = std::make_unique<int64_t>();
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      *number = ++last_number_;
      graphs_.emplace(*number, std::move(graphs));
    }
    auto* data = number.release();
    return at::from_blob(
        data, {1},
        [this](void* memory) {
          const std::unique_ptr<int64_t> owned(static_cast<int64_t*>(memory));
          remove(*owned);
        },
        at::TensorOptions().dtype(at::kLong));
  }

  std::shared_ptr<const Graphs> find(const at::Tensor& tensor) {
    const std::lock_guard<std::mutex> guard(mutex_);
    return graphs_.at(*tensor.const_data_ptr<int64_t>());
  }

 private:
  void remove(int64_t number) {
    std::shared_ptr<const Graphs> removed; // destroyed after the unlock
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = graphs_.find(number);
    removed = std::move(found->second);
    graphs_.erase(found);
  }

  std::mutex mutex_; // acquired alone
  std::unordered_map<int64_t, std::shared_ptr<const Graphs>> graphs_;
  int64_t last_number_ = 0;
};

} // namespace

struct AutogradCall::Function final : torch::autograd::Function<AutogradCall::Function> {
  // `others` receives the results without a gradient, at their positions.
  static variable_list forward(
      torch::autograd::AutogradContext* context, const AutogradCall* call, at::TensorList inputs,
      std::vector<at::Tensor>* others) {
    const auto& graphs = *call->graphs_;
    auto outputs = graphs.forward(inputs.vec());
    const auto results = static_cast<ptrdiff_t>(graphs.differentiable.size());
    context->save_for_backward({outputs.begin() + results, outputs.end()});
    context->saved_data["graphs"] = call->handle_;
    outputs.resize(results);
    variable_list differentiable;
    for (ptrdiff_t i = 0; i < results; ++i) {
      if (graphs.differentiable[i]) {
        differentiable.push_back(std::move(outputs[i]));
      }
    }
    *others = std::move(outputs);
    return differentiable;
  }

  static variable_list backward(
      torch::autograd::AutogradContext* context, const variable_list& gradients) {
    const auto held = part<GraphTable<Graphs>>().find(context->saved_data.at("graphs").toTensor());
    const auto& graphs = *held;
    TORCH_CHECK(
        graphs.deterministic || !at::globalContext().deterministicAlgorithms(),
        "This compiled backward function is being run with "
        "torch.use_deterministic_algorithms(True), but it was previously generated during the "
        "forward "
        "function while torch.use_deterministic_algorithms(False) was set.");
    auto inputs = context->get_saved_variables();
    inputs.insert(inputs.end(), gradients.begin(), gradients.end());
    auto gradients_of_inputs = graphs.backward(std::move(inputs));
    if (at::GradMode::is_enabled()) {
      forbid_double_backward(gradients_of_inputs);
    }
    variable_list result(1); // the arguments `call` and `others` have no gradient
    result.insert(result.end(), gradients_of_inputs.begin(), gradients_of_inputs.end());
    result.emplace_back();
    return result;
  }
};

AutogradCall::AutogradCall(
    GraphCall forward, GraphCall backward, std::vector<bool> differentiable, bool deterministic) {
  TORCH_CHECK_VALUE(
      forward.output_sources.size() >= differentiable.size(),
      "the graph returns fewer tensors than it has results");
  graphs_.reset(new Graphs{
      std::move(forward), std::move(backward), std::move(differentiable), deterministic});
  handle_ = part<GraphTable<Graphs>>().add(graphs_);
}

std::vector<at::Tensor> AutogradCall::operator()(std::vector<at::Tensor> inputs) const {
  const auto& graphs = *graphs_;
  const auto& gradients = graphs.backward.output_sources;
  TORCH_CHECK_VALUE(
      inputs.size() == gradients.size(), "the graph takes ", gradients.size(), " tensors");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!gradients[i] && inputs[i].requires_grad()) {
      inputs[i] = inputs[i].detach(); // it has no gradient, so autograd need not continue there
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
