#include "eager/layout.h"

#include "eager/trial_calls.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mul_meta_dispatch.h>

#include <c10/util/strides.h>

#include <unordered_map>

namespace ftm {
namespace {

using Arguments = c10::ArrayRef<c10::IValue>;
using Results = std::vector<ResultType>;

void lay_out(ResultType& result, c10::IntArrayRef strides) {
  result.strides = strides;
  result.contiguous = strides == c10::IntArrayRef(c10::contiguous_strides(result.type.sizes));
}

void lay_out(ResultType& result, at::MemoryFormat format) {
  if (result.type.dtype == at::ScalarType::Undefined) {
    return;
  }
  const c10::IntArrayRef sizes = result.type.sizes;
  const size_t dims = format == at::MemoryFormat::ChannelsLast3d ? 5 : 4;
  if (format != at::MemoryFormat::Contiguous && sizes.size() != dims) {
    return; // a tensor without batch dimension
  }
  if (format == at::MemoryFormat::ChannelsLast) {
    lay_out(result, c10::get_channels_last_strides_2d(sizes));
  } else if (format == at::MemoryFormat::ChannelsLast3d) {
    lay_out(result, c10::get_channels_last_strides_3d(sizes));
  } else {
    lay_out(result, c10::contiguous_strides(sizes));
  }
}

void contiguous(Arguments, Results& results) {
  lay_out(results[0], at::MemoryFormat::Contiguous);
}

// The product of the first two arguments.
void as_product(Arguments arguments, Results& results) {
  const auto product = at::meta::mul(meta_like(arguments[0].toTensor()), meta_like(arguments[1].toTensor()));
  lay_out(results[0], product.strides());
}

// A volume without a batch has the format of a batch of one.
void max_pool3d(Arguments arguments, Results& results) {
  const at::Tensor& input = arguments[0].toTensor();
  if (input.dim() != 4) {
    return;
  }
  c10::DimVector batch_sizes(input.sizes()), batch_strides(input.strides());
  batch_sizes.insert(batch_sizes.begin(), 1);
  batch_strides.insert(batch_strides.begin(), input.numel());
  const auto batch = at::detail::empty_strided_meta(batch_sizes, batch_strides, input.scalar_type());
  if (batch.suggest_memory_format() != at::MemoryFormat::ChannelsLast3d) {
    return;
  }
  for (auto& result : results) {
    c10::DimVector sizes(result.type.sizes);
    sizes.insert(sizes.begin(), 1);
    lay_out(result, c10::IntArrayRef(c10::get_channels_last_strides_3d(sizes)).slice(1));
  }
}

// Made of two slices, joined; without dims the elements are rolled as one row.
void roll(Arguments arguments, Results& results) {
  if (!arguments[2].toIntVector().empty() && results[0].type.numel() != 0) {
    lay_out(results[0], arguments[0].toTensor().suggest_memory_format());
  }
}

at::Tensor unfilled(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
}

// The format in which the kernel works that ATen selects; `first`: the argument `input`, behind it `weight`.
at::MemoryFormat convolution_format(Arguments arguments, size_t first, const c10::IValue& bias, size_t window) {
  const auto input = unfilled(arguments[first].toTensor());
  const auto weight = unfilled(arguments[first + 1].toTensor());
  if (input.dim() == 3) {
    return at::MemoryFormat::Contiguous;
  }
  const auto with_bias = bias.isTensor() && bias.toTensor().defined()
                             ? std::optional<at::Tensor>(unfilled(bias.toTensor()))
                             : std::nullopt;
  const auto stride = arguments[window].toIntVector();
  const auto padding = arguments[window + 1].toIntVector();
  const auto dilation = arguments[window + 2].toIntVector();
  const auto output_padding = arguments[window + 4].toIntVector();
  const auto backend = at::native::select_conv_backend(
      input, weight, with_bias, c10::fromIntArrayRefSlow(stride), c10::fromIntArrayRefSlow(padding),
      c10::fromIntArrayRefSlow(dilation), arguments[window + 3].toBool(), c10::fromIntArrayRefSlow(output_padding),
      arguments[window + 5].toInt(), std::nullopt);
  return at::native::_determine_backend_memory_format(input, weight, backend);
}

void convolution(Arguments arguments, Results& results) {
  lay_out(results[0], convolution_format(arguments, 0, arguments[2], 3));
}

void convolution_backward(Arguments arguments, Results& results) {
  const auto format = convolution_format(arguments, 1, c10::IValue(), 4);
  lay_out(results[0], format);
  lay_out(results[1], format);
}

using Rule = void (*)(Arguments, Results&);

// By the word in the op's record.
const std::unordered_map<std::string, Rule>& rules() {
  static const std::unordered_map<std::string, Rule> table = {
      {"contiguous", contiguous},    {"product", as_product},
      {"convolution", convolution},  {"convolution_backward", convolution_backward},
      {"pooled_volume", max_pool3d}, {"rolled", roll},
  };
  return table;
}

} // namespace

void lay_out_as_eager(const Op& op, c10::ArrayRef<c10::IValue> arguments, std::vector<ResultType>& results) {
  if (!op.written.empty()) {
    return;
  }
  if (op.facts->like >= 0) {
    lay_out(results[0], arguments[op.facts->like].toTensor().suggest_memory_format());
  }
  if (!op.facts->layout.empty()) {
    rules().at(op.facts->layout)(arguments, results);
  }
}

} // namespace ftm
