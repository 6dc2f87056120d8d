"""torch_xla.core: see `xla_model`."""

from ftm_lazy.torch_xla.core import xla_model

__all__ = ["xla_model"]
