#include "shape_inference/result_strides.h"

#include "shape_inference/shape_functions.h"
#include "shape_inference/meta_calls.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/empty_strided.h>

#include <c10/util/strides.h>

#include <algorithm>
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

at::Tensor unfilled(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
}

// Returns the memory format of the convolution kernel that ATen selects. `first` is the index of
// the argument `input`, which `weight` follows; `window` that of `stride`, which `padding`,
// `dilation` etc. follow.
at::MemoryFormat convolution_format(
    Arguments arguments, size_t first, const c10::IValue& bias, size_t window) {
  const auto input = unfilled(arguments[first].toTensor());
  const auto weight = unfilled(arguments[first + 1].toTensor());
  const auto with_bias = bias.isTensor() && bias.toTensor().defined()
                             ? std::optional<at::Tensor>(unfilled(bias.toTensor()))
                             : std::nullopt;
  const auto stride = arguments[window].toIntVector();
  const auto padding = arguments[window + 1].toIntVector();
  const auto dilation = arguments[window + 2].toIntVector();
  const auto output_padding = arguments[window + 4].toIntVector();
  const auto backend = at::native::select_conv_backend(
      input, weight, with_bias, c10::fromIntArrayRefSlow(stride), c10::fromIntArrayRefSlow(padding),
      c10::fromIntArrayRefSlow(dilation), arguments[window + 3].toBool(),
      c10::fromIntArrayRefSlow(output_padding), arguments[window + 5].toInt(), std::nullopt);
  return at::native::_determine_backend_memory_format(input, weight, backend);
}

// For 1-d convolutions, the CPU library chooses a layout that is no memory format.
bool is_one_dimensional(const c10::IValue& input) {
  return input.toTensor().dim() == 3;
}

bool convolution(Arguments arguments, Results& results) {
  if (is_one_dimensional(arguments[0])) {
    return false;
  }
  lay_out(results[0], convolution_format(arguments, 0, arguments[2], 3));
  return true;
}

bool convolution_backward(Arguments arguments, Results& results) {
  if (is_one_dimensional(arguments[1])) {
    return false;
  }
  const auto format = convolution_format(arguments, 1, c10::IValue(), 4);
  lay_out(results[0], format);
  lay_out(results[1], format);
  return true;
}

// Sets the strides of results; returns false if it cannot tell them.
using Rule = bool (*)(Arguments, Results&);

// By the op's trait `layout`. Running a 2-d convolution to find its layout would be too slow.
const std::unordered_map<std::string, Rule>& rules() {
  static const std::unordered_map<std::string, Rule> table = {
      {"convolution", convolution},
      {"convolution_backward", convolution_backward},
  };
  return table;
}

bool is_row_major(const at::Tensor& tensor) {
  return !tensor.defined() ||
         (tensor.numel() != 0 &&
          tensor.strides() == c10::IntArrayRef(c10::contiguous_strides(tensor.sizes())));
}

bool is_row_major(const c10::IValue& argument) {
  if (argument.isTensor()) {
    return is_row_major(argument.toTensor());
  }
  if (!argument.isTensorList() && !argument.isOptionalTensorList()) {
    return true;
  }
  const auto list = argument.toListRef();
  return std::all_of(list.begin(), list.end(), [](const c10::IValue& element) {
    return element.isNone() || is_row_major(element.toTensor());
  });
}

// Whether the CPU kernel may choose other strides than the meta kernel. Structured ops share one
// function for both.
bool may_differ(const Op& op, Arguments arguments) {
  return !is_structured(op.functional) &&
         !std::all_of(arguments.begin(), arguments.end(), [](const c10::IValue& argument) {
           return is_row_major(argument);
         });
}

// Copies the strides of the CPU kernel's results. Results with other sizes or dtypes are skipped;
// other checks handle those.
void lay_out_as(const torch::jit::Stack& returned, Results& results) {
  size_t next = 0;
  const auto take = [&](const at::Tensor& tensor) {
    if (next == results.size()) {
      return;
    }
    auto& result = results[next++];
    if (tensor.defined() && tensor.scalar_type() == result.type.dtype &&
        tensor.sizes() == result.type.sizes &&
        at::has_internal_overlap(tensor) != at::MemOverlap::Yes) {
      lay_out(result, tensor.strides());
    }
  };
  for (const auto& value : returned) {
    if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        take(tensor);
      }
    } else {
      take(value.isTensor() ? value.toTensor() : at::Tensor());
    }
  }
}

bool resizes_output(const Op& op, Arguments called, const Results& results) {
  for (size_t i = 0; i < op.written.size(); ++i) {
    const auto written = static_cast<size_t>(op.written[i]);
    if (op.arguments[written].out && called[written].toTensor().sizes() != results[i].type.sizes) {
      return true;
    }
  }
  return false;
}

// Applies the layout rule of the op's traits. Returns false if there is none for this call.
bool lay_out_by_record(const Op& op, Arguments functional, Results& results) {
  if (!op.written.empty()) {
    return false;
  }
  if (op.traits->like >= 0) {
    lay_out(results[0], functional[op.traits->like].toTensor().suggest_memory_format());
    return true;
  }
  const auto rule = rules().find(op.traits->layout);
  return rule != rules().end() && rule->second(functional, results);
}

} // namespace

void lay_out_as_eager(const Op& op, Arguments called, Arguments functional, Results& results) {
  const bool makes_layout = op.written.empty() || resizes_output(op, called, results);
  if (!makes_layout || lay_out_by_record(op, functional, results)) {
    return;
  }
  if (op.traits->layout == "cpu" || may_differ(op, functional)) {
    if (const auto returned = try_on_cpu(op, called)) {
      lay_out_as(*returned, results);
    }
  }
}

} // namespace ftm
