// nn.LSTM, nn.GRU and nn.RNN. A layer is a matrix product for the inputs of all steps and an op
// that loops over the steps; its gradient has another product for the weights. Unusual calls run
// ATen's unrolled code.
#include "nn/packed_sequence.h"
#include "nn/recurrent_direction.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/rnn_relu_native.h>
#include <ATen/ops/rnn_tanh_native.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

namespace ftm::recurrent {
namespace {

using at::Tensor;
using at::TensorList;
using torch::autograd::variable_list;

int64_t gate_count(Kind kind) {
  return kind == Kind::kLstm ? 4 : kind == Kind::kGru ? 3 : 1;
}

// The indices that convert a packed batch to a padded one and back, shared by all layers; for each
// direction.
struct PaddedSteps {
  int64_t steps;
  int64_t batch;
  Tensor rows[2]; // see Packing
  Tensor padded_rows[2];
  Tensor last_rows;

  PaddedSteps(const Packing& packing, c10::Device device, bool bidirectional)
      : steps(packing.steps), batch(packing.batch), last_rows(packing.last_rows(device)) {
    for (int backwards = 0; backwards <= static_cast<int>(bidirectional); ++backwards) {
      rows[backwards] = packing.rows(backwards, device);
      padded_rows[backwards] = packing.padded_rows(backwards, device);
    }
  }
};

struct LayerCall {
  Kind kind;
  Tensor input; // [T, B, I]; if packed, [rows, I]
  std::vector<Tensor> states; // hidden, and cell for an LSTM: [layers * directions, B, H]
  TensorList params;
  bool has_biases;
  int64_t layers;
  double dropout;
  bool train;
  bool bidirectional;
  std::optional<int64_t> packed_batch; // batch size of a packed input

  int64_t directions() const { return bidirectional ? 2 : 1; }
  int64_t params_per_direction() const { return has_biases ? 4 : 2; }
};

// Whether forward-mode or functorch derivatives are computed, which the loop ops do not support.
bool is_transformed(const LayerCall& call) {
  const auto has_tangent = [](const Tensor& x) { return x._fw_grad(/*level=*/0).defined(); };
  return c10::impl::tls_is_dispatch_key_included(
             c10::DispatchKey::FuncTorchDynamicLayerFrontMode) ||
         has_tangent(call.input) ||
         std::any_of(call.states.begin(), call.states.end(), has_tangent) ||
         std::any_of(call.params.begin(), call.params.end(), has_tangent);
}

// Whether the loop ops support the call. ATen handles the others, including invalid ones.
bool is_supported(const LayerCall& call) {
  const auto& input = call.input;
  if (input.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) { // traced for all sizes
    return false;
  }
  const int64_t rank = call.packed_batch ? 2 : 3, stacked = call.layers * call.directions();
  if (at::autocast::is_autocast_enabled(input.device().type()) || !input.is_floating_point() ||
      input.dim() != rank || input.numel() == 0 || call.layers < 1 ||
      static_cast<int64_t>(call.params.size()) != stacked * call.params_per_direction()) {
    return false;
  }
  const int64_t batch = call.packed_batch ? *call.packed_batch : input.size(1);
  const auto fits = [&](const Tensor& x, at::IntArrayRef sizes) {
    return x.defined() && x.sizes() == sizes && x.device() == input.device() &&
           x.scalar_type() == input.scalar_type() && x.layout() == at::kStrided;
  };
  if (call.states[0].dim() != 3 || !fits(input, input.sizes())) {
    return false;
  }
  const int64_t hidden = call.states[0].size(2), rows = gate_count(call.kind) * hidden;
  for (const auto& state : call.states) {
    if (hidden == 0 || !fits(state, {stacked, batch, hidden})) {
      return false;
    }
  }
  for (int64_t k = 0; k < stacked; ++k) {
    const auto params =
        call.params.slice(k * call.params_per_direction(), call.params_per_direction());
    const int64_t width = k < call.directions() ? input.size(-1) : hidden * call.directions();
    if (!fits(params[0], {rows, width}) || !fits(params[1], {rows, hidden}) ||
        (call.has_biases && !(fits(params[2], {rows}) && fits(params[3], {rows})))) {
      return false;
    }
  }
  return true;
}

// Returns the gates for steps past the end of a sequence. They let an LSTM keep its cell state:
// input gate 0, forget gate 1.
Tensor idle_row(Kind kind, const Tensor& gates) {
  auto row = at::zeros({1, gates.size(1)}, gates.options());
  if (kind == Kind::kLstm) {
    const int64_t width = gates.size(1) / 4;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    row.narrow(1, 0, width).fill_(-kInfinity);
    row.narrow(1, width, width).fill_(kInfinity);
  }
  return row;
}

// Runs one direction of one layer. A packed batch is padded: past the end of a sequence the gates
// are idle, and for the backward direction each sequence is reversed. Returns the states after each
// step, in the input's layout, then the last states.
variable_list run_direction(
    const LayerCall& call, const PaddedSteps* padding, const Tensor& input, int64_t number,
    bool backwards) {
  const auto params =
      call.params.slice(number * call.params_per_direction(), call.params_per_direction());
  Direction direction{
      call.kind, params[1], {}, backwards && padding == nullptr, is_transformed(call)};
  std::optional<Tensor> bias;
  if (call.has_biases) {
    bias = call.kind == Kind::kGru ? params[2] : params[2] + params[3];
    direction.bias = params[3];
  }
  std::vector<Tensor> first;
  first.reserve(call.states.size());
  for (const auto& state : call.states) {
    first.push_back(state[number]);
  }
  const auto gates = at::linear(input, params[0], bias);
  if (padding == nullptr) {
    return run(direction, gates, first);
  }
  const auto padded =
      at::cat({gates, idle_row(call.kind, gates)}).index_select(0, padding->rows[backwards]);
  auto results = run(direction, padded.view({padding->steps, padding->batch, -1}), first);
  const auto states = results[0].flatten(0, 1);
  results[0] = states.index_select(0, padding->padded_rows[backwards]);
  results[1] = states.index_select(0, padding->last_rows);
  return results;
}

// Runs all layers. Returns the output, then the last states.
variable_list run_layers(const LayerCall& call, const PaddedSteps* padding) {
  auto input = call.input;
  std::vector<variable_list> last(call.states.size());
  for (int64_t layer = 0; layer < call.layers; ++layer) {
    variable_list outputs;
    for (int64_t k = 0; k < call.directions(); ++k) {
      const auto results =
          run_direction(call, padding, input, layer * call.directions() + k, k == 1);
      outputs.push_back(results[0]);
      for (size_t n = 0; n < last.size(); ++n) {
        last[n].push_back(results[1 + n]);
      }
    }
    input = call.bidirectional ? at::cat(outputs, -1) : outputs[0];
    if (call.dropout != 0 && call.train && layer < call.layers - 1) {
      input = at::dropout(input, call.dropout, /*train=*/true);
    }
  }
  variable_list all{input};
  for (const auto& states : last) {
    all.push_back(at::stack(states));
  }
  return all;
}

// Runs a padded batch; nullopt if ATen must handle the call.
std::optional<variable_list> run_padded(LayerCall call, bool batch_first) {
  if (batch_first && call.input.dim() == 3) {
    call.input = call.input.transpose(0, 1);
  }
  if (!is_supported(call)) {
    return std::nullopt;
  }
  auto results = run_layers(call, nullptr);
  if (batch_first) {
    results[0] = results[0].transpose(0, 1);
  }
  return results;
}

// Does the same for a packed batch.
std::optional<variable_list> run_packed(LayerCall call, const Tensor& batch_sizes) {
  if (batch_sizes.device().type() != at::kCPU || batch_sizes.scalar_type() != at::kLong ||
      batch_sizes.dim() != 1 || batch_sizes.numel() == 0) {
    return std::nullopt;
  }
  call.packed_batch = batch_sizes[0].item<int64_t>();
  if (!is_supported(call)) {
    return std::nullopt;
  }
  const Packing packing(batch_sizes);
  TORCH_CHECK(
      packing.total == call.input.size(0), "a packed sequence has ", call.input.size(0),
      " rows, but its batch_sizes have ", packing.total);
  const PaddedSteps padding(packing, call.input.device(), call.bidirectional);
  return run_layers(call, &padding);
}

using Pair = std::tuple<Tensor, Tensor>;
using Triple = std::tuple<Tensor, Tensor, Tensor>;

Triple lstm(
    const Tensor& input, TensorList hx, TensorList params, bool has_biases, int64_t layers,
    double dropout, bool train, bool bidirectional, bool batch_first) {
  if (hx.size() == 2) {
    const LayerCall call{Kind::kLstm, input,   hx.vec(), params,        has_biases,
                         layers,      dropout, train,    bidirectional, {}};
    if (const auto results = run_padded(call, batch_first)) {
      return {(*results)[0], (*results)[1], (*results)[2]};
    }
  }
  return at::native::lstm(
      input, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first);
}

Triple packed_lstm(
    const Tensor& data, const Tensor& batch_sizes, TensorList hx, TensorList params,
    bool has_biases, int64_t layers, double dropout, bool train, bool bidirectional) {
  if (hx.size() == 2) {
    const LayerCall call{Kind::kLstm, data,    hx.vec(), params,        has_biases,
                         layers,      dropout, train,    bidirectional, {}};
    if (const auto results = run_packed(call, batch_sizes)) {
      return {(*results)[0], (*results)[1], (*results)[2]};
    }
  }
  return at::native::lstm(
      data, batch_sizes, hx, params, has_biases, layers, dropout, train, bidirectional);
}

using Unrolled =
    Pair(const Tensor&, const Tensor&, TensorList, bool, int64_t, double, bool, bool, bool);
using UnrolledPacked = Pair(
    const Tensor&, const Tensor&, const Tensor&, TensorList, bool, int64_t, double, bool, bool);

template <Kind kind, Unrolled* unrolled>
Pair layers(
    const Tensor& input, const Tensor& hx, TensorList params, bool has_biases, int64_t count,
    double dropout, bool train, bool bidirectional, bool batch_first) {
  const auto results = run_padded(
      {kind, input, {hx}, params, has_biases, count, dropout, train, bidirectional, {}},
      batch_first);
  return results ? Pair{(*results)[0], (*results)[1]}
                 : unrolled(
                       input, hx, params, has_biases, count, dropout, train, bidirectional,
                       batch_first);
}

template <Kind kind, UnrolledPacked* unrolled>
Pair packed_layers(
    const Tensor& data, const Tensor& batch_sizes, const Tensor& hx, TensorList params,
    bool has_biases, int64_t count, double dropout, bool train, bool bidirectional) {
  const auto results = run_packed(
      {kind, data, {hx}, params, has_biases, count, dropout, train, bidirectional, {}},
      batch_sizes);
  return results
             ? Pair{(*results)[0], (*results)[1]}
             : unrolled(
                   data, batch_sizes, hx, params, has_biases, count, dropout, train, bidirectional);
}

void register_layers(torch::Library& library) {
  library.impl("lstm.input", TORCH_FN(lstm));
  library.impl("lstm.data", TORCH_FN(packed_lstm));
  library.impl("gru.input", TORCH_FN((layers<Kind::kGru, &at::native::gru>)));
  library.impl("gru.data", TORCH_FN((packed_layers<Kind::kGru, &at::native::gru>)));
  library.impl("rnn_tanh.input", TORCH_FN((layers<Kind::kTanh, &at::native::rnn_tanh>)));
  library.impl("rnn_tanh.data", TORCH_FN((packed_layers<Kind::kTanh, &at::native::rnn_tanh>)));
  library.impl("rnn_relu.input", TORCH_FN((layers<Kind::kRelu, &at::native::rnn_relu>)));
  library.impl("rnn_relu.data", TORCH_FN((packed_layers<Kind::kRelu, &at::native::rnn_relu>)));
}

} // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
  register_layers(library);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  register_layers(library);
}

} // namespace ftm::recurrent
