"""torch_xla.experimental.tpu: deprecated names of `_internal.tpu`, from before torch_xla 2.1."""

import sys

from ftm_lazy.torch_xla._internal import tpu
from ftm_lazy.torch_xla.experimental.deprecation import register_deprecated

for _new in (
    tpu.num_available_chips,
    tpu.num_available_devices,
    tpu.num_local_processes,
    tpu.version,
):
    register_deprecated(sys.modules[__name__], _new)
