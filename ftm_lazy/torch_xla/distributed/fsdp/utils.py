"""torch_xla.distributed.fsdp.utils: activation checkpointing of modules."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.utils.checkpoint

from ftm_lazy.torch_xla import _refusals

__all__ = ["apply_xla_patch_to_nn_linear", "checkpoint_module"]

__getattr__ = _refusals.getter(__name__)


def checkpoint_module(module: torch.nn.Module) -> torch.nn.Module:
    """Recompute the module's whole forward pass in the backward pass, and return the module."""
    forward = module.forward

    @functools.wraps(forward)
    def checkpointed(*args: object, **kwargs: object) -> object:
        # PyTorch stops the recomputation early by default, but the remaining operations may count
        # calls or collect statistics.
        with torch.utils.checkpoint.set_checkpoint_early_stop(False):
            return torch.utils.checkpoint.checkpoint(forward, *args, use_reentrant=False, **kwargs)

    module.forward = checkpointed
    return module


def apply_xla_patch_to_nn_linear(
    module: torch.nn.Module, patched_function: object = None
) -> torch.nn.Module:
    """Return `module` unchanged: linear layers need no patch."""
    return module


apply_xla_patch_to_nn_linear._inert = "linear layers need no patch"  # type: ignore[attr-defined]
