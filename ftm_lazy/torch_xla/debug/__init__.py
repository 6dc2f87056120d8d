"""torch_xla.debug: metrics and the profiler."""

from ftm_lazy.torch_xla.debug import metrics

__all__ = ["metrics"]
