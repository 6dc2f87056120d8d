"""torch_xla.experimental.pjrt_backend: the deprecated name of `distributed.xla_backend`."""

import warnings

from ftm_lazy.torch_xla.distributed import xla_backend

warnings.warn(
    "torch_xla.experimental.pjrt_backend is deprecated."
    " Use torch_xla.distributed.xla_backend instead.",
    DeprecationWarning,
    stacklevel=2,
)
