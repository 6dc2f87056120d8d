"""torch_xla.experimental: `eager_mode`, loops over tensors, and others."""

from ftm_lazy.torch_xla.experimental.eager import eager_mode, eager_mode_context, is_eager_mode

__all__ = ["eager_mode", "eager_mode_context", "is_eager_mode"]
