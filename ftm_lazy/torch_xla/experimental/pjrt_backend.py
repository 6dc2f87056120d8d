"""torch_xla.experimental.pjrt_backend: an old name of `distributed.xla_backend`, which importing
this imports."""

import warnings

from ftm_lazy.torch_xla.distributed import xla_backend

warnings.warn(
    "torch_xla.experimental.pjrt_backend is deprecated. Use torch_xla.distributed.xla_backend instead.",
    DeprecationWarning,
    stacklevel=2,
)
