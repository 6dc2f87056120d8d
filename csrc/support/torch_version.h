// What differs between the supported versions of PyTorch, with one name for each difference. The
// Python side's are in ftm_lazy/torch_version.
#pragma once

#include <torch/headeronly/version.h>

// Whether PyTorch's headers are those of this version or a newer one.
#define FTM_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||      \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

// The value of a number's text in the metadata of Kineto's activities, which JSON has without
// quotes. A macro, because only the profiler includes Kineto.
#if FTM_TORCH_AT_LEAST(2, 14)
#define FTM_UNQUOTED_METADATA(text) (libkineto::RawJson{text})
#else
#define FTM_UNQUOTED_METADATA(text) (std::make_pair(text, /*quoted=*/false))
#endif

// Calls `_` with each op of linear algebra that 2.14 removed, after years of deprecation.
#if FTM_TORCH_AT_LEAST(2, 14)
#define FTM_FORALL_REMOVED_LINALG(_)
#else
#define FTM_FORALL_REMOVED_LINALG(_) _(cholesky) _(qr)
#endif

namespace ftm {

// Whether torch.quantize_per_tensor on the CPU rounds before it adds the zero point, as elementwise
// ops of quantized tensors do in all versions.
inline constexpr bool kQuantizeRoundsFirst = FTM_TORCH_AT_LEAST(2, 14);

} // namespace ftm
