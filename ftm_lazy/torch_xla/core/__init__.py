"""torch_xla.core: `xla_model`, commonly ``xm``, and what lies beside it."""

from ftm_lazy.torch_xla.core import xla_model

__all__ = ["xla_model"]
