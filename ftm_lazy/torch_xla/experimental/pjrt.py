"""torch_xla.experimental.pjrt: deprecated names of `runtime`, from before torch_xla 2.0."""

import sys

from ftm_lazy.torch_xla import runtime
from ftm_lazy.torch_xla.experimental.deprecation import register_deprecated

for _new in (
    runtime.addressable_device_count,
    runtime.device_type,
    runtime.global_device_count,
    runtime.global_ordinal,
    runtime.local_ordinal,
    runtime.local_process_count,
    runtime.using_pjrt,
    runtime.world_size,
):
    register_deprecated(sys.modules[__name__], _new)
