// Linear layers and convolutions of quantized tensors. Products of integers are exact; sums are
// scaled and rounded once, as in the CPU's fbgemm. Weights are packed CPU objects; the device keeps
// a copy of each.
#include "eager_checks/call_checks.h"
#include "quantized/boxed_kernels.h"
#include "quantized/quantized_tensor.h"
#include "support/runtime.h"

#include <ATen/native/quantized/PackedParams.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/full.h>
#include <torch/library.h>

#include <array>
#include <mutex>
#include <optional>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ftm {
namespace {

using LinearParams = c10::intrusive_ptr<LinearPackedParamsBase>;
template <int kDims>
using ConvParams = c10::intrusive_ptr<ConvPackedParamsBase<kDims>>;

// Factors and addends of a product's sums: the result is (sum + addend) * factor, rounded. float32
// device tensors with one element, or one per channel.
struct Scaling {
  double input_scale = 0, output_scale = 0;
  at::Tensor factors;
  at::Tensor addends; // undefined: none
};

// The most recently used scalings of some weights. Tensors are created and destroyed without the
// lock, since that may need the recorder's lock or the GIL.
class ScalingCache {
 public:
  std::optional<Scaling> find(double input_scale, double output_scale) {
    const std::lock_guard<std::mutex> guard(mutex_);
    for (const Scaling& scaling : scalings_) {
      if (scaling.factors.defined() && scaling.input_scale == input_scale &&
          scaling.output_scale == output_scale) {
        return scaling;
      }
    }
    return std::nullopt;
  }
  void insert(Scaling scaling) {
    const std::lock_guard<std::mutex> guard(mutex_);
    std::swap(scalings_[next_++ % scalings_.size()], scaling);
  }

 private:
  std::mutex mutex_;
  std::array<Scaling, 4> scalings_;
  size_t next_ = 0;
};

// Unpacked weights on the device.
struct Weights {
  explicit Weights(const c10::intrusive_ptr<torch::CustomClassHolder>& packed) : packed(packed) {}

  c10::weak_intrusive_ptr<torch::CustomClassHolder> packed;
  at::Tensor integers; // on the device: int8, as before packing
  at::Tensor zero_points; // on the device: int32, along the output channels; undefined if all are 0
  at::Tensor scales; // on the CPU: float32, one or one per output channel
  std::optional<at::Tensor> bias; // on the CPU: float32
  bool rounds_bias = false; // QNNPACK adds the bias as an integer
  ScalingCache scalings;
};

const c10::Device kOnDevice{c10::kPrivateUse1};

// Cache of unpacked weights, for the lifetime of the packed ones. Tensors are destroyed without the
// lock, as above.
class WeightTable {
 public:
  std::shared_ptr<Weights> find(const torch::CustomClassHolder* packed) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = weights_.find(packed);
    const bool is_alive = found != weights_.end() && found->second->packed.lock().get() == packed;
    return is_alive ? found->second : nullptr;
  }
  // Returns the weights in the table, which another thread may have inserted meanwhile.
  std::shared_ptr<Weights> insert(
      const torch::CustomClassHolder* packed, std::shared_ptr<Weights> weights) {
    std::vector<std::shared_ptr<Weights>> expired; // destroyed after the unlock
    const std::lock_guard<std::mutex> guard(mutex_);
    for (auto at = weights_.begin(); at != weights_.end();) {
      if (at->second->packed.expired()) {
        expired.push_back(std::move(at->second));
        at = weights_.erase(at);
      } else {
        ++at;
      }
    }
    return weights_.emplace(packed, std::move(weights)).first->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const torch::CustomClassHolder*, std::shared_ptr<Weights>> weights_;
};

std::shared_ptr<Weights> unpack(
    const c10::intrusive_ptr<torch::CustomClassHolder>& packed, const at::Tensor& weight,
    const std::optional<at::Tensor>& bias, int64_t channel_axis) {
  auto weights = std::make_shared<Weights>(packed);
  const bool per_channel = weight.qscheme() == at::kPerChannelAffine;
  TORCH_CHECK_NOT_IMPLEMENTED(
      weight.scalar_type() == at::kQInt8 &&
          (per_channel || weight.qscheme() == at::kPerTensorAffine),
      "device ftm multiplies with weights of qint8, quantized per tensor or per channel, not of ",
      weight.scalar_type(), ", ", toString(weight.qscheme()));
  weights->integers = weight.int_repr().to(kOnDevice);
  weights->scales = per_channel ? weight.q_per_channel_scales().to(at::kFloat).contiguous()
                                : at::full({1}, static_cast<float>(weight.q_scale()), at::kFloat);
  const at::Tensor zeros = per_channel ? weight.q_per_channel_zero_points().to(at::kInt)
                                       : at::full({1}, weight.q_zero_point(), at::kInt);
  if (zeros.ne(0).any().item<bool>()) {
    c10::DimVector sizes(weight.dim(), 1);
    sizes[channel_axis] = zeros.numel();
    weights->zero_points = zeros.view(sizes).to(kOnDevice);
  }
  weights->bias = bias ? std::optional(bias->detach().to(at::kFloat)) : std::nullopt;
  weights->rounds_bias = c10::demangle(typeid(*packed).name()).find("Qnnp") != std::string::npos;
  return weights;
}

template <typename Params>
std::shared_ptr<Weights> weights_of(const Params& packed, int64_t channel_axis) {
  if (auto weights = part<WeightTable>().find(packed.get())) {
    return weights;
  }
  const auto [weight, bias] = packed->unpack();
  return part<WeightTable>().insert(packed.get(), unpack(packed, weight, bias, channel_axis));
}

// Computed with the CPU's precision and order, so that results agree to the last bit.
Scaling scaling_of(Weights& weights, double input_scale, double output_scale) {
  if (auto scaling = weights.scalings.find(input_scale, output_scale)) {
    return *scaling;
  }
  const at::Tensor sums_scale =
      weights.scales.mul(static_cast<double>(static_cast<float>(input_scale)));
  Scaling scaling{
      input_scale,
      output_scale,
      sums_scale.div(static_cast<double>(static_cast<float>(output_scale))).to(kOnDevice),
      {}};
  if (weights.bias) {
    const at::Tensor addends =
        // A single scale: the reciprocal is computed in double and rounded to float.
        weights.scales.numel() == 1 ? weights.bias->mul(1.0 / sums_scale.item<float>())
                                    : weights.bias->div(sums_scale);
    scaling.addends = (weights.rounds_bias ? addends.round() : addends).to(kOnDevice);
  }
  weights.scalings.insert(scaling);
  return scaling;
}

at::Tensor wide_weights(const Weights& weights) {
  const at::Tensor wide = weights.integers.to(at::kInt);
  return weights.zero_points.defined() ? wide.sub(weights.zero_points) : wide;
}

at::Tensor wide_input(const char* name, const at::Tensor& input) {
  TORCH_CHECK(
      input.is_quantized(), name, ": expected a quantized input, got ", input.scalar_type());
  check_per_tensor(name, input);
  TORCH_CHECK(
      input.scalar_type() != at::kQInt32, name, ": Expected input data type ", at::kQUInt8,
      " but got ", input.scalar_type());
  return integers_of(input).to(at::kInt).sub(input.q_zero_point());
}

// Requantizes sums of products, which are integers with their channels along `axis`.
at::Tensor requantize(
    const at::Tensor& sums, int64_t axis, const Scaling& scaling, int64_t zero_point,
    at::ScalarType dtype, bool relu) {
  c10::DimVector sizes(sums.dim(), 1);
  sizes[axis] = -1;
  at::Tensor numbers = sums.to(at::kFloat);
  if (scaling.addends.defined()) {
    numbers = numbers.add(scaling.addends.view(sizes));
  }
  const auto [least, greatest] = range_of(dtype);
  const int64_t floor = relu ? std::max(least, zero_point) : least;
  const at::Tensor whole = numbers.mul(scaling.factors.view(sizes))
                               .round()
                               .clamp(floor - zero_point, greatest - zero_point);
  return whole.add(zero_point).to(integer_dtype(dtype));
}

template <bool kRelu>
at::Tensor linear(
    const at::Tensor& input, const LinearParams& packed, double scale, int64_t zero_point) {
  const at::Tensor wide = wide_input("quantized::linear", input);
  const auto weights = weights_of(packed, 0);
  TORCH_CHECK(
      input.dim() >= 2, "The dimension of input tensor should be larger than or equal to 2");
  TORCH_CHECK(
      input.size(-1) == weights->integers.size(1),
      "The number of rows in the weight does not match the last dimension of the ",
      "input: ", weights->integers.size(1), " and ", input.size(-1));
  const at::Tensor sums = wide.reshape({-1, input.size(-1)}).mm(wide_weights(*weights).t());
  const Scaling scaling = scaling_of(*weights, input.q_scale(), scale);
  const at::Tensor integers = requantize(sums, 1, scaling, zero_point, input.scalar_type(), kRelu);
  c10::DimVector sizes(input.sizes());
  sizes.back() = sums.size(1);
  return as_quantized(
      integers.view(sizes),
      at::make_per_tensor_affine_quantizer(scale, zero_point, input.scalar_type()));
}

constexpr std::array<const char*, 4> kConvolution{
    "", "quantized::conv1d", "quantized::conv2d", "quantized::conv3d"};

template <int kDims>
at::Tensor convolve(
    const at::Tensor& input, const ConvParams<kDims>& packed, double scale, int64_t zero_point,
    bool relu) {
  TORCH_CHECK(
      input.dim() == kDims + 2, kConvolution[kDims], ": Expected activation tensor to have ",
      kDims + 2, " dimensions, got ", input.dim());
  const at::Tensor wide = wide_input(kConvolution[kDims], input);
  const auto weights = weights_of(packed, packed->transpose() ? 1 : 0);
  // Both are exact; transposed convolutions of integers are not compiled.
  const auto sum_type = packed->transpose() ? at::kDouble : at::kInt;
  const AllowIntegers allow;
  const at::Tensor sums = at::convolution(
      wide.to(sum_type), wide_weights(*weights).to(sum_type), std::nullopt, packed->stride().vec(),
      packed->padding().vec(), packed->dilation().vec(), packed->transpose(),
      packed->output_padding().vec(), packed->groups());
  const Scaling scaling = scaling_of(*weights, input.q_scale(), scale);
  const at::Tensor integers = requantize(sums, 1, scaling, zero_point, input.scalar_type(), relu);
  const auto format =
      kDims == 2 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
  return as_quantized(
      integers.contiguous(format),
      at::make_per_tensor_affine_quantizer(scale, zero_point, input.scalar_type()));
}

template <int kDims, bool kRelu>
at::Tensor convolution(
    const at::Tensor& input, const ConvParams<kDims>& packed, double scale, int64_t zero_point) {
  return convolve<kDims>(input, packed, scale, zero_point, kRelu);
}

// The old signature, with arguments that the packed weights have too.
template <int kDims, bool kRelu>
at::Tensor old_convolution(
    const at::Tensor& input, const ConvParams<kDims>& packed, at::IntArrayRef, at::IntArrayRef,
    at::IntArrayRef, int64_t, double scale, int64_t zero_point) {
  return convolve<kDims>(input, packed, scale, zero_point, kRelu);
}

// A 1-d convolution is packed as a 2-d one of height 1.
template <bool kRelu>
at::Tensor convolution1d(
    const at::Tensor& input, const ConvParams<2>& packed, double scale, int64_t zero_point) {
  TORCH_CHECK(
      input.dim() == 3, "quantized::conv1d: Expected activation tensor to have 3 dimensions, got ",
      input.dim());
  return convolve<2>(input.unsqueeze(2), packed, scale, zero_point, kRelu).squeeze(2);
}

} // namespace

TORCH_LIBRARY_IMPL(quantized, QuantizedPrivateUse1, library) {
  library.impl("linear", boxed<&linear<false>>());
  library.impl("linear_relu", boxed<&linear<true>>());
  library.impl("conv1d", boxed<&convolution1d<false>>());
  library.impl("conv1d_relu", boxed<&convolution1d<true>>());
  library.impl("conv2d.new", boxed<&convolution<2, false>>());
  library.impl("conv2d_relu.new", boxed<&convolution<2, true>>());
  library.impl("conv3d.new", boxed<&convolution<3, false>>());
  library.impl("conv3d_relu.new", boxed<&convolution<3, true>>());
  library.impl("conv2d", boxed<&old_convolution<2, false>>());
  library.impl("conv2d_relu", boxed<&old_convolution<2, true>>());
  library.impl("conv3d", boxed<&old_convolution<3, false>>());
  library.impl("conv3d_relu", boxed<&old_convolution<3, true>>());
  library.impl("conv_transpose1d", boxed<&convolution1d<false>>());
  library.impl("conv_transpose2d", boxed<&convolution<2, false>>());
  library.impl("conv_transpose3d", boxed<&convolution<3, false>>());
}

} // namespace ftm
