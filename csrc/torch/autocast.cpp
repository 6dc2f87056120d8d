// torch.autocast("ftm"), with ATen's own lists of ops that run in lower precision, in float32, or
// promote.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

// ATen's macros use names relative to at::autocast.
namespace at::autocast {
namespace {

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

Tensor binary_cross_entropy_refused(
    const Tensor&, const Tensor&, const std::optional<Tensor>&, int64_t) {
  TORCH_CHECK(
      false,
      "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: a "
      "probability in lower precision rounds to 0 or 1, whose logarithm is no loss. Use "
      "binary_cross_entropy_with_logits or BCEWithLogitsLoss, which take the logits, or compute "
      "the "
      "loss where autocast is disabled.");
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define FTM_KERNEL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(FTM_KERNEL)
#undef FTM_KERNEL
#define FTM_KERNEL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(FTM_KERNEL)
#undef FTM_KERNEL
#define FTM_KERNEL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(FTM_KERNEL)
#undef FTM_KERNEL
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
#define FTM_KERNEL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(FTM_KERNEL)
#undef FTM_KERNEL
  // Ops with lists of tensors are not in ATen's lists.
  KERNEL_PRIVATEUSEONE(cat, promote)
  KERNEL_PRIVATEUSEONE(stack, promote)
  m.impl("binary_cross_entropy", TORCH_FN(binary_cross_entropy_refused));
}

} // namespace
} // namespace at::autocast
