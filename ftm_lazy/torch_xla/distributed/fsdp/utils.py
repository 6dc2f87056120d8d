"""torch_xla.distributed.fsdp.utils: modules that compute again what they do not keep."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.utils.checkpoint

from ftm_lazy.torch_xla import _refusals

__all__ = ["apply_xla_patch_to_nn_linear", "checkpoint_module"]

__getattr__ = _refusals.getter(__name__)


def checkpoint_module(module: torch.nn.Module) -> torch.nn.Module:
    """`module`, whose forward runs again in the backward pass, to its end."""
    forward = module.forward

    @functools.wraps(forward)
    def again(*args: object, **kwargs: object) -> Any:
        # PyTorch stops where nothing that is needed follows, but what follows may count calls or
        # gather statistics.
        with torch.utils.checkpoint.set_checkpoint_early_stop(False):
            return torch.utils.checkpoint.checkpoint(forward, *args, use_reentrant=False, **kwargs)

    module.forward = again
    return module


def apply_xla_patch_to_nn_linear(
    module: torch.nn.Module, patched_function: object = None
) -> torch.nn.Module:
    """`module`: linear layers need no patch."""
    return module


apply_xla_patch_to_nn_linear._inert = "linear layers need no patch here"  # type: ignore[attr-defined]
