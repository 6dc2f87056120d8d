// Shape functions of network layers: normalization, convolution, dropout, embedding.
#include "shape_inference/layer_shapes.h"

#include <ATen/Operators.h>

namespace ftm {
namespace {

using Optional = std::optional<at::Tensor>;
using Integers = c10::SymIntArrayRef;
using Mask = std::array<bool, 3>;

// Whether the tensor has one element per channel, or is not given.
bool is_per_channel(const Optional& tensor, int64_t channels) {
  return !tensor || !tensor->defined() || (tensor->dim() == 1 && tensor->size(0) == channels);
}

at::Tensor meta_if(bool wanted, at::IntArrayRef sizes, at::ScalarType dtype) {
  return wanted ? contiguous_meta(sizes, dtype) : at::Tensor();
}

// Returns a tensor with the layout of eager's batch norm output; nullopt unless the input is
// contiguous or channels_last.
MetaResult batch_norm_output(const at::Tensor& input) {
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
  at::Tensor per_channel() const { return contiguous_meta({out.size(1)}, out.scalar_type()); }
};

std::optional<BatchNorm> batch_norm(
    const at::Tensor& input, const Optional& weight, const Optional& bias, const Optional& mean,
    const Optional& var) {
  if (input.dim() < 2 || input.numel() == 0 ||
      !is_all_of_float({&weight, &bias, &mean, &var}, input.scalar_type())) {
    return std::nullopt;
  }
  for (const Optional* parameter : {&weight, &bias, &mean, &var}) {
    if (!is_per_channel(*parameter, input.size(1))) {
      return std::nullopt;
    }
  }
  auto out = batch_norm_output(input);
  return out ? std::optional<BatchNorm>(BatchNorm{*std::move(out)}) : std::nullopt;
}

using FiveTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

std::optional<FiveTensors> batch_norm_functional(
    const at::Tensor& input, const Optional& weight, const Optional& bias, const at::Tensor& mean,
    const at::Tensor& var, bool training, double, double) {
  const auto result = batch_norm(input, weight, bias, mean, var);
  if (!result || !training) {
    return std::nullopt;
  }
  return FiveTensors(
      result->out, result->per_channel(), result->per_channel(), result->per_channel(),
      result->per_channel());
}

std::optional<ThreeTensors> batch_norm_no_stats(
    const at::Tensor& input, const Optional& weight, const Optional& bias, bool training, double,
    double) {
  const auto result = batch_norm(input, weight, bias, std::nullopt, std::nullopt);
  if (!result || !training) {
    return std::nullopt;
  }
  return ThreeTensors(result->out, result->per_channel(), result->per_channel());
}

std::optional<ThreeTensors> batch_norm_no_training(
    const at::Tensor& input, const Optional& weight, const Optional& bias, const at::Tensor& mean,
    const at::Tensor& var, double, double) {
  const auto result = batch_norm(input, weight, bias, mean, var);
  if (!result) {
    return std::nullopt;
  }
  return ThreeTensors(result->out, result->per_channel(), result->per_channel());
}

std::optional<ThreeTensors> batch_norm_backward(
    const at::Tensor& grad, const at::Tensor& input, const Optional& weight, const Optional& mean,
    const Optional& var, const Optional& save_mean, const Optional& save_deviation, bool train,
    double, Mask mask) {
  const auto dtype = input.scalar_type();
  const bool has_statistics = train ? is_defined(save_mean) && is_defined(save_deviation)
                                    : is_defined(mean) && is_defined(var);
  const bool is_supported =
      grad.sizes() == input.sizes() && grad.strides() == input.strides() && has_statistics &&
      is_all_of_float({&save_mean, &save_deviation}, dtype) && grad.scalar_type() == dtype;
  const auto result =
      is_supported ? batch_norm(input, weight, std::nullopt, mean, var) : std::nullopt;
  if (!result) {
    return std::nullopt;
  }
  const auto per_channel_if = [&](bool wanted) {
    return wanted ? result->per_channel() : at::Tensor();
  };
  return ThreeTensors(result->out, per_channel_if(mask[1]), per_channel_if(mask[2]));
}

// --- layer norm and group norm, whose results are contiguous in eager ---

std::optional<ThreeTensors> layer_norm_backward(
    const at::Tensor& grad, const at::Tensor& input, Integers normalized_shape,
    const at::Tensor& mean, const at::Tensor& deviation, const Optional& weight,
    const Optional& bias, Mask mask) {
  const auto dtype = input.scalar_type();
  const auto shape = c10::asIntArrayRefSlowOpt(normalized_shape);
  const auto has_shape = [&](const Optional& tensor) {
    return !is_defined(tensor) || tensor->sizes() == *shape;
  };
  if (!shape || input.numel() == 0 || grad.sizes() != input.sizes() ||
      shape->size() > size_t(input.dim()) ||
      input.sizes().slice(input.dim() - shape->size()) != *shape || !has_shape(weight) ||
      !has_shape(bias) || !is_all_of_float({&weight, &bias}, dtype) ||
      grad.scalar_type() != dtype || mean.scalar_type() != dtype ||
      deviation.scalar_type() != dtype) {
    return std::nullopt;
  }
  return ThreeTensors(
      meta_if(mask[0], input.sizes(), dtype), meta_if(mask[1] && is_defined(weight), *shape, dtype),
      meta_if(mask[2] && is_defined(bias), *shape, dtype));
}

bool is_valid_group_norm(
    const at::Tensor& input, const Optional& weight, int64_t n, int64_t channels, int64_t inner,
    int64_t group) {
  return input.dim() >= 2 && input.is_contiguous() && n > 0 && channels > 0 && inner > 0 &&
         group > 0 && channels % group == 0 && input.numel() == n * channels * inner &&
         is_per_channel(weight, channels) && is_all_of_float({&weight}, input.scalar_type());
}

std::optional<ThreeTensors> group_norm(
    const at::Tensor& input, const Optional& weight, const Optional& bias, c10::SymInt n,
    c10::SymInt channels, c10::SymInt inner, int64_t group, double) {
  const auto dtype = input.scalar_type();
  const int64_t rows = n.expect_int(), columns = channels.expect_int();
  if (!is_valid_group_norm(input, weight, rows, columns, inner.expect_int(), group) ||
      !is_per_channel(bias, columns) || !is_all_of_float({&bias}, dtype)) {
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
  if (!is_valid_group_norm(input, weight, rows, columns, inner.expect_int(), group) ||
      grad.sizes() != input.sizes() || !grad.is_contiguous() || grad.scalar_type() != dtype ||
      !are_statistics(mean) || !are_statistics(deviation)) {
    return std::nullopt;
  }
  return ThreeTensors(
      meta_if(mask[0], input.sizes(), dtype), meta_if(mask[1], {columns}, dtype),
      meta_if(mask[2], {columns}, dtype));
}

// --- convolution ---

// Expands a parameter to one number per dimension, where a single one stands for all.
std::optional<c10::DimVector> per_dimension(Integers numbers, int64_t dims) {
  const auto given = c10::asIntArrayRefSlowOpt(numbers);
  if (!given || (given->size() != 1 && given->size() != size_t(dims))) {
    return std::nullopt;
  }
  return given->size() == 1 ? c10::DimVector(dims, given->front()) : c10::DimVector(*given);
}

MetaResult convolution(
    const at::Tensor& input, const at::Tensor& weight, const Optional& bias, Integers stride,
    Integers padding, Integers dilation, bool transposed, Integers, c10::SymInt group_count) {
  const int64_t dims = input.dim() - 2, groups = group_count.expect_int();
  const auto dtype = input.scalar_type();
  if (dims < 1 || transposed || weight.dim() != input.dim() || input.numel() == 0 ||
      weight.numel() == 0 || groups < 1 || weight.size(1) * groups != input.size(1) ||
      weight.size(0) % groups != 0 || !is_per_channel(bias, weight.size(0)) ||
      !is_all_of_float({&bias}, dtype) || weight.scalar_type() != dtype) {
    return std::nullopt;
  }
  const auto strides = per_dimension(stride, dims), paddings = per_dimension(padding, dims),
             dilations = per_dimension(dilation, dims);
  if (!strides || !paddings || !dilations) {
    return std::nullopt;
  }
  c10::DimVector sizes{input.size(0), weight.size(0)};
  for (int64_t i = 0; i < dims; ++i) {
    const int64_t step = (*strides)[i], border = (*paddings)[i], spread = (*dilations)[i];
    const int64_t last_start =
        input.size(i + 2) + 2 * border - spread * (weight.size(i + 2) - 1) - 1;
    if (step < 1 || border < 0 || spread < 1 || last_start < 0) {
      return std::nullopt;
    }
    sizes.push_back(last_start / step + 1);
  }
  return contiguous_meta(sizes, dtype);
}

std::optional<ThreeTensors> convolution_backward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
    at::OptionalSymIntArrayRef bias_sizes, Integers, Integers, Integers, bool, Integers,
    c10::SymInt, Mask mask) {
  const auto is_contiguous_format = [](const at::Tensor& tensor) {
    return tensor.suggest_memory_format() == at::MemoryFormat::Contiguous;
  };
  const auto bias = bias_sizes ? c10::asIntArrayRefSlowOpt(*bias_sizes) : std::nullopt;
  if (!is_contiguous_format(input) || !is_contiguous_format(weight) || (mask[2] && !bias)) {
    return std::nullopt;
  }
  const auto dtype = grad.scalar_type();
  return ThreeTensors(
      meta_if(mask[0], input.sizes(), dtype), meta_if(mask[1], weight.sizes(), dtype),
      mask[2] && bias ? contiguous_meta(*bias, dtype) : at::Tensor());
}

// --- dropout, embedding, grid sample ---

std::optional<TwoTensors> dropout(const at::Tensor& input, double, std::optional<bool>) {
  if (!at::isFloatingType(input.scalar_type())) {
    return std::nullopt;
  }
  const auto mask = input.numel() == 0 ? input.scalar_type() : at::kBool; // as the CPU kernel
  return TwoTensors(elementwise(input.scalar_type(), input), elementwise(mask, input));
}

MetaResult dropout_backward(const at::Tensor& grad, const at::Tensor& mask, double) {
  if (!is_all_of_float({}, grad.scalar_type()) || mask.scalar_type() != at::kBool) {
    return std::nullopt;
  }
  return elementwise(grad.scalar_type(), {grad, mask});
}

MetaResult embedding_dense_backward(
    const at::Tensor& grad, const at::Tensor& indices, c10::SymInt weights, c10::SymInt, bool) {
  if (grad.dim() < 1 || grad.sizes().slice(0, grad.dim() - 1) != indices.sizes() ||
      !at::isFloatingType(grad.scalar_type()) ||
      (indices.scalar_type() != at::kLong && indices.scalar_type() != at::kInt)) {
    return std::nullopt;
  }
  return contiguous_meta({weights.expect_int(), grad.size(-1)}, grad.scalar_type());
}

MetaResult grid_sampler_2d(
    const at::Tensor& input, const at::Tensor& grid, int64_t mode, int64_t padding, bool) {
  if (input.dim() != 4 || grid.dim() != 4 || input.numel() == 0 || grid.numel() == 0 ||
      grid.size(3) != 2 || grid.size(0) != input.size(0) || !input.is_contiguous() ||
      grid.scalar_type() != input.scalar_type() || !is_all_of_float({}, input.scalar_type()) ||
      mode < 0 || mode > 2 || padding < 0 || padding > 2) {
    return std::nullopt;
  }
  return contiguous_meta(
      {input.size(0), input.size(1), grid.size(1), grid.size(2)}, input.scalar_type());
}

} // namespace

void add_layer_shapes(ShapeTable& table) {
  add_partial_function<at::_ops::_native_batch_norm_legit_functional, &batch_norm_functional>(
      table);
  add_partial_function<at::_ops::_native_batch_norm_legit_no_stats, &batch_norm_no_stats>(table);
  add_partial_function<at::_ops::_native_batch_norm_legit_no_training, &batch_norm_no_training>(
      table);
  add_partial_function<at::_ops::native_batch_norm_backward, &batch_norm_backward>(table);
  add_partial_function<at::_ops::native_layer_norm_backward, &layer_norm_backward>(table);
  add_partial_function<at::_ops::native_group_norm, &group_norm>(table);
  add_partial_function<at::_ops::native_group_norm_backward, &group_norm_backward>(table);
  add_partial_function<at::_ops::convolution, &ftm::convolution>(table);
  add_partial_function<at::_ops::convolution_backward, &ftm::convolution_backward>(table);
  add_partial_function<at::_ops::native_dropout, &dropout>(table);
  add_partial_function<at::_ops::native_dropout_backward, &dropout_backward>(table);
  add_partial_function<at::_ops::embedding_dense_backward, &ftm::embedding_dense_backward>(table);
  add_partial_function<at::_ops::grid_sampler_2d, &ftm::grid_sampler_2d>(table);
}

} // namespace ftm
