"""torch_xla.core: `xla_model`, usually imported as ``xm``, and related modules."""

from ftm_lazy.torch_xla.core import xla_model

__all__ = ["xla_model"]
