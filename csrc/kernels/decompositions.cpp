// Ops with separate kernels for the CPU and other devices, which are recorded as the ops that they
// consist of.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/_embedding_bag_backward_native.h>
#include <ATen/ops/_weight_norm_differentiable_backward_native.h>
#include <ATen/ops/addr_native.h>
#include <ATen/ops/div.h>
#include <ATen/ops/index_put.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/norm_except_dim.h>
#include <ATen/ops/pixel_shuffle_native.h>
#include <ATen/ops/pixel_unshuffle_native.h>
#include <torch/library.h>

#include <utility>

namespace ftm {
namespace {

// Autograd writes by index through an op whose argument `unsafe` means that indices need no check.
// The program checks them in any case.
at::Tensor& index_put_unchecked(
    at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices, const at::Tensor& values,
    bool accumulate, bool) {
  return at::index_put_(self, indices, values, accumulate);
}

// The CPU kernels keep a memory format that ATen's composite kernels lose, and never return a view
// of the operand.
at::Tensor match_format(const at::Tensor& self, const at::Tensor& result) {
  const auto format = self.suggest_memory_format();
  const bool matches = format == at::MemoryFormat::Contiguous && !result.is_alias_of(self);
  return matches ? result : result.clone(format);
}

at::Tensor channel_shuffle(const at::Tensor& self, int64_t groups) {
  TORCH_CHECK(
      self.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ",
      self.sizes());
  const int64_t channels = self.size(1);
  TORCH_CHECK(
      groups > 0,
      "Number of groups to divide channels in must be positive. Value of groups:", groups);
  TORCH_CHECK(
      channels % groups == 0, "Number of channels must be divisible by groups. Got ", channels,
      " channels and ", groups, " groups.");
  c10::DimVector split(self.sizes());
  split[1] = channels / groups;
  split.insert(split.begin() + 1, groups);
  return match_format(self, self.reshape(split).transpose(1, 2).reshape(self.sizes()));
}

at::Tensor pixel_shuffle(const at::Tensor& self, int64_t factor) {
  return match_format(self, at::native::math_pixel_shuffle(self, factor));
}

at::Tensor pixel_unshuffle(const at::Tensor& self, int64_t factor) {
  return match_format(self, at::native::math_pixel_unshuffle(self, factor));
}

// weight_norm calls this for the first or last dim; for others, ATen composes it of these ops
// itself.
std::tuple<at::Tensor, at::Tensor> weight_norm(
    const at::Tensor& v, const at::Tensor& g, int64_t dim) {
  const at::Tensor norms = at::norm_except_dim(v, 2, dim);
  return {at::mul(v, at::div(g, norms)), norms};
}

// The CPU kernel checks the numbers; the composite kernel does not.
void check_factor(at::ScalarType dtype, const at::Scalar& factor, const char* name) {
  TORCH_CHECK(
      !factor.isBoolean() || dtype == at::kBool, "Boolean ", name,
      " only supported for Boolean results.");
  TORCH_CHECK(
      at::isFloatingType(dtype) || at::isComplexType(dtype) ||
          factor.isIntegral(/*includeBool=*/true),
      "For integral input tensors, argument ", name, " must not be a floating point number.");
}

// Checks the factors, and multiplies `alpha` and `vec1`, as eager's kernel does before it
// multiplies by `vec2`; ATen's decomposition multiplies `alpha` last. Returns both factors of
// `vec2`. Booleans stay as they are: they have no products.
std::pair<at::Tensor, at::Scalar> check_and_scale(
    const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
    const at::Scalar& alpha) {
  const auto dtype = at::native::result_type({self, vec1, vec2});
  check_factor(dtype, beta, "beta");
  check_factor(dtype, alpha, "alpha");
  if (dtype == at::kBool || alpha.equal(1)) {
    return {vec1, alpha};
  }
  return {vec1.to(dtype).mul(alpha), 1};
}

at::Tensor addr(
    const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
    const at::Scalar& alpha) {
  const auto [scaled, factor] = check_and_scale(self, vec1, vec2, beta, alpha);
  return at::native::math_addr(self, scaled, vec2, beta, factor);
}

at::Tensor& addr_out(
    const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
    const at::Scalar& alpha, at::Tensor& out) {
  const auto [scaled, factor] = check_and_scale(self, vec1, vec2, beta, alpha);
  at::assert_no_internal_overlap(out);
  for (const auto& operand : {self, vec1, vec2}) {
    at::assert_no_partial_overlap(out, operand);
  }
  return at::native::math_addr_out(self, scaled, vec2, beta, factor, out);
}

at::Tensor& addr_in_place(
    at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
    const at::Scalar& alpha) {
  const auto [scaled, factor] = check_and_scale(self, vec1, vec2, beta, alpha);
  TORCH_CHECK(self.dim() == 2, "2D tensor expected, got ", self.dim(), "D tensor for input");
  const auto result = at::native::math_addr(self, scaled, vec2, beta, factor);
  TORCH_CHECK(
      result.sizes() == self.sizes(), "size mismatch, input: ", self.sizes(),
      ", v1: ", vec1.sizes(), ", v2: ", vec2.sizes());
  TORCH_CHECK(
      at::canCast(result.scalar_type(), self.scalar_type()), "result type ", result.scalar_type(),
      " can't be cast to the desired output type ", self.scalar_type());
  return self.copy_(result);
}

// ATen's kernel accumulates into `out`, which then cannot be resized.
at::Tensor& mv_out(const at::Tensor& self, const at::Tensor& vec, at::Tensor& out) {
  const auto product = at::mv(self, vec);
  TORCH_CHECK(
      product.dtype() == out.dtype(), "Expected out tensor to have dtype ", product.dtype(),
      ", but got ", out.dtype(), " instead");
  at::native::resize_output(out, product.sizes());
  return out.copy_(product);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_index_put_impl_", TORCH_FN(index_put_unchecked));
  library.impl("addr", TORCH_FN(addr));
  library.impl("addr_", TORCH_FN(addr_in_place));
  library.impl("addr.out", TORCH_FN(addr_out));
  library.impl("channel_shuffle", TORCH_FN(channel_shuffle));
  library.impl("mv.out", TORCH_FN(mv_out));
  library.impl("pixel_shuffle", TORCH_FN(pixel_shuffle));
  library.impl("pixel_unshuffle", TORCH_FN(pixel_unshuffle));
  library.impl("_weight_norm_interface", TORCH_FN(weight_norm));
  library.impl(
      "_weight_norm_interface_backward",
      TORCH_FN(at::native::_weight_norm_differentiable_backward));
  library.impl("_embedding_bag_backward", TORCH_FN(at::native::_embedding_bag_backward_symint));
}

} // namespace ftm
