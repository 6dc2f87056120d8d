"""torch_xla._patched_functions: functions that torch_xla patches; here they are PyTorch's own."""

from torch.nn import GRU
from torch.nn.utils import clip_grad_norm_

from ftm_lazy.torch_xla.experimental.gru import GRU as ScanGRU

__all__ = ["GRU", "ScanGRU", "clip_grad_norm_"]


def _apply_patches() -> None:
    """Do nothing."""
