"""torch_xla._patched_functions: what torch_xla put in the place of PyTorch's own; here PyTorch's
own, which need no patch."""

from torch.nn import GRU
from torch.nn.utils import clip_grad_norm_

from ftm_lazy.torch_xla.experimental.gru import GRU as ScanGRU

__all__ = ["GRU", "ScanGRU", "clip_grad_norm_"]


def _apply_patches() -> None:
    """Nothing to patch."""
