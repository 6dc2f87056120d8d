// torch.autocast("ftm"), with ATen's own lists for CUDA of ops that run in lower precision, in
// float32, or promote, and with the CPU's list of ops that run in float32.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "support/torch_version.h"

// ATen's macros use names relative to at::autocast.
namespace at::autocast {
namespace {

// Ops that run in float32 on the CPU, and that CUDA's list lacks. Most have no kernel in lower
// precision. `cross_entropy_loss` would round the logarithms before it averages them.
// clang-format off
#define FTM_FORALL_CPU_FP32(_) \
  _(_lu_with_info) \
  _(cholesky_inverse) \
  _(cholesky_solve) \
  _(cross_entropy_loss) \
  _(ctc_loss, IntList) \
  _(ctc_loss, Tensor) \
  _(fft_fft) \
  _(fft_fft2) \
  _(fft_fftn) \
  _(fft_hfft) \
  _(fft_ifft) \
  _(fft_ifft2) \
  _(fft_ifftn) \
  _(fft_ihfft) \
  _(fft_irfft) \
  _(fft_irfft2) \
  _(fft_irfftn) \
  _(fft_rfft) \
  _(fft_rfft2) \
  _(fft_rfftn) \
  _(geqrf) \
  _(inverse) \
  _(linalg_cholesky) \
  _(linalg_cholesky_ex) \
  _(linalg_cond) \
  _(linalg_cond, p_str) \
  _(linalg_eig) \
  _(linalg_eigh) \
  _(linalg_eigvals) \
  _(linalg_eigvalsh) \
  _(linalg_householder_product) \
  _(linalg_inv) \
  _(linalg_inv_ex) \
  _(linalg_lstsq) \
  _(linalg_matrix_rank) \
  _(linalg_matrix_rank, atol_rtol_float) \
  _(linalg_matrix_rank, atol_rtol_tensor) \
  _(linalg_matrix_rank, tol_tensor) \
  _(linalg_qr) \
  _(linalg_solve) \
  _(linalg_svd) \
  _(linalg_svdvals) \
  _(linalg_tensorinv) \
  _(linalg_tensorsolve) \
  _(lu_solve) \
  _(nanquantile) \
  _(nanquantile, scalar) \
  _(orgqr) \
  _(ormqr) \
  _(pinverse) \
  _(polar) \
  _(quantile) \
  _(quantile, scalar) \
  _(stft) \
  _(stft, center) \
  _(svd) \
  _(trace) \
  _(triangular_solve) \
  _(view_as_complex)
// clang-format on

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
  FTM_FORALL_CPU_FP32(FTM_KERNEL)
  FTM_FORALL_REMOVED_LINALG(FTM_KERNEL)
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
