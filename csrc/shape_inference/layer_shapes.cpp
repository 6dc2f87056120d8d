// What the layers of networks return: normalizations, convolutions, and what their gradients are
// made by.
#include "shape_inference/layer_shapes.h"

#include <ATen/Operators.h>

namespace ftm {
namespace {

using Optional = std::optional<at::Tensor>;
using Integers = c10::SymIntArrayRef;
using Mask = std::array<bool, 3>;

// Of as many channels, or not there.
bool is_of_channels(const Optional& tensor, int64_t channels) {
  return !tensor || !tensor->defined() || (tensor->dim() == 1 && tensor->size(0) == channels);
}

at::Tensor if_wanted(bool wanted, at::IntArrayRef sizes, at::ScalarType dtype) {
  return wanted ? contiguous_meta(sizes, dtype) : at::Tensor();
}

// Laid out as eager's batch norm lays out what it makes; nothing for what is neither plain nor
// channels_last.
Known image_like(const at::Tensor& input) {
  const auto format = input.suggest_memory_format();
  if (!input.is_contiguous(format)) {
    return std::nullopt;
  }
  return at::Tensor(
      at::detail::empty_meta(
          input.sizes(), input.scalar_type(), std::nullopt, std::nullopt, std::nullopt, format));
}

// --- batch norm ---

struct BatchNorm {
  at::Tensor out;
  at::Tensor of_channels() const { return contiguous_meta({out.size(1)}, out.scalar_type()); }
};

std::optional<BatchNorm> batch_norm(
    const at::Tensor& input, const Optional& weight, const Optional& bias, const Optional& mean,
    const Optional& var) {
  if (input.dim() < 2 || input.numel() == 0 ||
      !of_one_float(input.scalar_type(), {&weight, &bias, &mean, &var})) {
    return std::nullopt;
  }
  for (const Optional* parameter : {&weight, &bias, &mean, &var}) {
    if (!is_of_channels(*parameter, input.size(1))) {
      return std::nullopt;
    }
  }
  auto out = image_like(input);
  return out ? std::optional<BatchNorm>(BatchNorm{*std::move(out)}) : std::nullopt;
}

using FiveTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

std::optional<FiveTensors> batch_norm_functional(
    const at::Tensor& input, const Optional& weight, const Optional& bias, const at::Tensor& mean,
    const at::Tensor& var, bool training, double, double) {
  const auto made = batch_norm(input, weight, bias, mean, var);
  if (!made || !training) {
    return std::nullopt;
  }
  return FiveTensors(
      made->out, made->of_channels(), made->of_channels(), made->of_channels(),
      made->of_channels());
}

std::optional<ThreeTensors> batch_norm_no_stats(
    const at::Tensor& input, const Optional& weight, const Optional& bias, bool training, double,
    double) {
  const auto made = batch_norm(input, weight, bias, std::nullopt, std::nullopt);
  if (!made || !training) {
    return std::nullopt;
  }
  return ThreeTensors(made->out, made->of_channels(), made->of_channels());
}

std::optional<ThreeTensors> batch_norm_no_training(
    const at::Tensor& input, const Optional& weight, const Optional& bias, const at::Tensor& mean,
    const at::Tensor& var, double, double) {
  const auto made = batch_norm(input, weight, bias, mean, var);
  if (!made) {
    return std::nullopt;
  }
  return ThreeTensors(made->out, made->of_channels(), made->of_channels());
}

std::optional<ThreeTensors> batch_norm_backward(
    const at::Tensor& grad, const at::Tensor& input, const Optional& weight, const Optional& mean,
    const Optional& var, const Optional& save_mean, const Optional& save_deviation, bool train,
    double, Mask mask) {
  const auto dtype = input.scalar_type();
  const bool known =
      grad.sizes() == input.sizes() && grad.strides() == input.strides() &&
      (train ? is_there(save_mean) && is_there(save_deviation) : is_there(mean) && is_there(var)) &&
      of_one_float(dtype, {&save_mean, &save_deviation}) && grad.scalar_type() == dtype;
  const auto made = known ? batch_norm(input, weight, std::nullopt, mean, var) : std::nullopt;
  if (!made) {
    return std::nullopt;
  }
  const auto of_channels = [&](bool wanted) { return wanted ? made->of_channels() : at::Tensor(); };
  return ThreeTensors(made->out, of_channels(mask[1]), of_channels(mask[2]));
}

// --- norms of rows and groups, whose results eager lays out without gaps ---

std::optional<ThreeTensors> layer_norm_backward(
    const at::Tensor& grad, const at::Tensor& input, Integers normalized_shape,
    const at::Tensor& mean, const at::Tensor& deviation, const Optional& weight,
    const Optional& bias, Mask mask) {
  const auto dtype = input.scalar_type();
  const auto shape = c10::asIntArrayRefSlowOpt(normalized_shape);
  const auto ends_like = [&](const Optional& tensor) {
    return !is_there(tensor) || tensor->sizes() == *shape;
  };
  if (!shape || input.numel() == 0 || grad.sizes() != input.sizes() ||
      shape->size() > size_t(input.dim()) ||
      input.sizes().slice(input.dim() - shape->size()) != *shape || !ends_like(weight) ||
      !ends_like(bias) || !of_one_float(dtype, {&weight, &bias}) || grad.scalar_type() != dtype ||
      mean.scalar_type() != dtype || deviation.scalar_type() != dtype) {
    return std::nullopt;
  }
  return ThreeTensors(
      if_wanted(mask[0], input.sizes(), dtype),
      if_wanted(mask[1] && is_there(weight), *shape, dtype),
      if_wanted(mask[2] && is_there(bias), *shape, dtype));
}

bool are_groups(
    const at::Tensor& input, const Optional& weight, int64_t n, int64_t channels, int64_t inner,
    int64_t group) {
  return input.dim() >= 2 && input.is_contiguous() && n > 0 && channels > 0 && inner > 0 &&
         group > 0 && channels % group == 0 && input.numel() == n * channels * inner &&
         is_of_channels(weight, channels) && of_one_float(input.scalar_type(), {&weight});
}

std::optional<ThreeTensors> group_norm(
    const at::Tensor& input, const Optional& weight, const Optional& bias, c10::SymInt n,
    c10::SymInt channels, c10::SymInt inner, int64_t group, double) {
  const auto dtype = input.scalar_type();
  const int64_t rows = n.expect_int(), columns = channels.expect_int();
  if (!are_groups(input, weight, rows, columns, inner.expect_int(), group) ||
      !is_of_channels(bias, columns) || !of_one_float(dtype, {&bias})) {
    return std::nullopt;
  }
  const auto statistics = [&] { return contiguous_meta({rows, group}, dtype); };
  return ThreeTensors(contiguous_meta(input.sizes(), dtype), statistics(), statistics());
}

std::optional<ThreeTensors> group_norm_backward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean,
    const at::Tensor& deviation, const Optional& weight, c10::SymInt n, c10::SymInt channels,
    c10::SymInt inner, int64_t group, Mask mask) {
  const auto dtype = input.scalar_type();
  const int64_t rows = n.expect_int(), columns = channels.expect_int();
  const auto are_statistics = [&](const at::Tensor& tensor) {
    return tensor.sizes() == at::IntArrayRef({rows, group}) && tensor.scalar_type() == dtype;
  };
  if (!are_groups(input, weight, rows, columns, inner.expect_int(), group) ||
      grad.sizes() != input.sizes() || !grad.is_contiguous() || grad.scalar_type() != dtype ||
      !are_statistics(mean) || !are_statistics(deviation)) {
    return std::nullopt;
  }
  return ThreeTensors(
      if_wanted(mask[0], input.sizes(), dtype), if_wanted(mask[1], {columns}, dtype),
      if_wanted(mask[2], {columns}, dtype));
}

// --- convolution ---

// One number for each dimension, where one may stand for all.
std::optional<c10::DimVector> of_each(Integers numbers, int64_t dims) {
  const auto given = c10::asIntArrayRefSlowOpt(numbers);
  if (!given || (given->size() != 1 && given->size() != size_t(dims))) {
    return std::nullopt;
  }
  return given->size() == 1 ? c10::DimVector(dims, given->front()) : c10::DimVector(*given);
}

Known convolution(
    const at::Tensor& input, const at::Tensor& weight, const Optional& bias, Integers stride,
    Integers padding, Integers dilation, bool transposed, Integers, c10::SymInt groups_of) {
  const int64_t dims = input.dim() - 2, groups = groups_of.expect_int();
  const auto dtype = input.scalar_type();
  if (dims < 1 || transposed || weight.dim() != input.dim() || input.numel() == 0 ||
      weight.numel() == 0 || groups < 1 || weight.size(1) * groups != input.size(1) ||
      weight.size(0) % groups != 0 || !is_of_channels(bias, weight.size(0)) ||
      !of_one_float(dtype, {&bias}) || weight.scalar_type() != dtype) {
    return std::nullopt;
  }
  const auto steps = of_each(stride, dims), borders = of_each(padding, dims),
             spreads = of_each(dilation, dims);
  if (!steps || !borders || !spreads) {
    return std::nullopt;
  }
  c10::DimVector sizes{input.size(0), weight.size(0)};
  for (int64_t i = 0; i < dims; ++i) {
    const int64_t step = (*steps)[i], border = (*borders)[i], spread = (*spreads)[i];
    const int64_t room = input.size(i + 2) + 2 * border - spread * (weight.size(i + 2) - 1) - 1;
    if (step < 1 || border < 0 || spread < 1 || room < 0) {
      return std::nullopt;
    }
    sizes.push_back(room / step + 1);
  }
  return contiguous_meta(sizes, dtype);
}

std::optional<ThreeTensors> convolution_backward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
    at::OptionalSymIntArrayRef bias_sizes, Integers, Integers, Integers, bool, Integers,
    c10::SymInt, Mask mask) {
  const auto is_plain = [](const at::Tensor& tensor) {
    return tensor.suggest_memory_format() == at::MemoryFormat::Contiguous;
  };
  const auto bias = bias_sizes ? c10::asIntArrayRefSlowOpt(*bias_sizes) : std::nullopt;
  if (!is_plain(input) || !is_plain(weight) || (mask[2] && !bias)) {
    return std::nullopt;
  }
  const auto dtype = grad.scalar_type();
  return ThreeTensors(
      if_wanted(mask[0], input.sizes(), dtype), if_wanted(mask[1], weight.sizes(), dtype),
      mask[2] && bias ? contiguous_meta(*bias, dtype) : at::Tensor());
}

// --- dropout, look-ups, samples ---

std::optional<TwoTensors> dropout(const at::Tensor& input, double, std::optional<bool>) {
  if (!at::isFloatingType(input.scalar_type())) {
    return std::nullopt;
  }
  const auto mask = input.numel() == 0 ? input.scalar_type() : at::kBool; // as the CPU says
  return TwoTensors(elementwise(input.scalar_type(), input), elementwise(mask, input));
}

Known dropout_backward(const at::Tensor& grad, const at::Tensor& mask, double) {
  if (!of_one_float(grad.scalar_type(), {}) || mask.scalar_type() != at::kBool) {
    return std::nullopt;
  }
  return elementwise(grad.scalar_type(), {grad, mask});
}

Known embedding_dense_backward(
    const at::Tensor& grad, const at::Tensor& indices, c10::SymInt weights, c10::SymInt, bool) {
  if (grad.dim() < 1 || grad.sizes().slice(0, grad.dim() - 1) != indices.sizes() ||
      !at::isFloatingType(grad.scalar_type()) ||
      (indices.scalar_type() != at::kLong && indices.scalar_type() != at::kInt)) {
    return std::nullopt;
  }
  return contiguous_meta({weights.expect_int(), grad.size(-1)}, grad.scalar_type());
}

Known grid_sampler_2d(
    const at::Tensor& input, const at::Tensor& grid, int64_t mode, int64_t padding, bool) {
  if (input.dim() != 4 || grid.dim() != 4 || input.numel() == 0 || grid.numel() == 0 ||
      grid.size(3) != 2 || grid.size(0) != input.size(0) || !input.is_contiguous() ||
      grid.scalar_type() != input.scalar_type() || !of_one_float(input.scalar_type(), {}) ||
      mode < 0 || mode > 2 || padding < 0 || padding > 2) {
    return std::nullopt;
  }
  return contiguous_meta(
      {input.size(0), input.size(1), grid.size(1), grid.size(2)}, input.scalar_type());
}

} // namespace

void add_layer_shapes(ShapeTable& table) {
  add_known_calls<at::_ops::_native_batch_norm_legit_functional, &batch_norm_functional>(table);
  add_known_calls<at::_ops::_native_batch_norm_legit_no_stats, &batch_norm_no_stats>(table);
  add_known_calls<at::_ops::_native_batch_norm_legit_no_training, &batch_norm_no_training>(table);
  add_known_calls<at::_ops::native_batch_norm_backward, &batch_norm_backward>(table);
  add_known_calls<at::_ops::native_layer_norm_backward, &layer_norm_backward>(table);
  add_known_calls<at::_ops::native_group_norm, &group_norm>(table);
  add_known_calls<at::_ops::native_group_norm_backward, &group_norm_backward>(table);
  add_known_calls<at::_ops::convolution, &ftm::convolution>(table);
  add_known_calls<at::_ops::convolution_backward, &ftm::convolution_backward>(table);
  add_known_calls<at::_ops::native_dropout, &dropout>(table);
  add_known_calls<at::_ops::native_dropout_backward, &dropout_backward>(table);
  add_known_calls<at::_ops::embedding_dense_backward, &ftm::embedding_dense_backward>(table);
  add_known_calls<at::_ops::grid_sampler_2d, &ftm::grid_sampler_2d>(table);
}

} // namespace ftm
