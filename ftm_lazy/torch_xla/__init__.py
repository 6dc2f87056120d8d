"""torch_xla's API, implemented on the device ftm.

    import ftm_lazy.torch_xla as torch_xla
    import ftm_lazy.torch_xla.core.xla_model as xm

``python -m ftm_lazy.torch_xla script.py`` runs an unmodified torch_xla program; see
docs/torch_xla.md. Importing this package does not make ``torch_xla`` importable, because other
libraries change their behaviour if it is.
"""

from __future__ import annotations

import torch

from ftm_lazy.torch_xla import _refusals

_refusals.install()  # before any submodule: unsupported modules have no file

from ftm_lazy.torch_xla import (  # noqa: E402  # noqa: E402
    _XLAC,
    _analysis,
    _dynamo,
    _environment,
    _internal,
    _program_adjustments,
    amp,
    core,
    debug,
    distributed,
    experimental,
    runtime,
    stablehlo,
    utils,
    version,
)
from ftm_lazy.torch_xla._devices import device, device_count, devices, real_devices  # noqa: E402
from ftm_lazy.torch_xla._internal import (  # noqa: E402
    c10d_registration,
    decomp_registration,
    neuron,
    tpu,
    xpu,
)
from ftm_lazy.torch_xla._steps import compile, step, sync  # noqa: E402
from ftm_lazy.torch_xla.core import xla_model as xm  # noqa: E402
from ftm_lazy.torch_xla.distributed import xla_backend  # noqa: E402  (registers the backend ``xla`` and ``xla://``)
from ftm_lazy.torch_xla.distributed.xla_multiprocessing import launch  # noqa: E402
from ftm_lazy.torch_xla.experimental import eager_mode  # noqa: E402
from ftm_lazy.torch_xla.stablehlo import save_as_stablehlo, save_torch_model_as_stablehlo  # noqa: E402
from ftm_lazy.torch_xla.version import __version__  # noqa: E402

__all__ = [
    "amp",
    "c10d_registration",
    "compile",
    "core",
    "debug",
    "decomp_registration",
    "device",
    "device_count",
    "devices",
    "distributed",
    "eager_mode",
    "experimental",
    "launch",
    "manual_seed",
    "neuron",
    "real_devices",
    "runtime",
    "save_as_stablehlo",
    "save_torch_model_as_stablehlo",
    "stablehlo",
    "step",
    "sync",
    "tpu",
    "utils",
    "xm",
    "xpu",
]

__getattr__ = _refusals.getter(__name__)

_environment.warn_of_variables()
_analysis.install()
_program_adjustments.prepare()


def manual_seed(seed: int, device: torch.device | str | None = None) -> None:
    """Seed the device's generator, as `core.xla_model.set_rng_state` does.

    Args:
        seed: An integer.
        device: The device; None means the only one.
    """
    core.xla_model.set_rng_state(seed, device)
