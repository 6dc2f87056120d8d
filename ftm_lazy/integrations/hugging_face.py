"""Mixed precision in Accelerate and Transformers, which know by name the devices that have it.

Both run on ftm when ``ACCELERATE_TORCH_DEVICE=ftm`` is in the environment. With ``fp16`` Accelerate
refuses devices that are not on a list of its own, and makes a gradient scaler for CUDA;
Transformers refuses ``bf16`` likewise. What is here asks nothing of either library: it waits until
a program imports them, and changes these two answers for ftm.
"""

from __future__ import annotations

import functools
import inspect
import os
from types import ModuleType
from typing import Any

import torch

from ftm_lazy.integrations import import_hooks

__all__ = ["install"]


def _name() -> str:
    """What the device is called in this process."""
    return torch._C._get_privateuse1_backend_name()


def _is_chosen() -> bool:
    """Return whether the two libraries run on ftm."""
    return os.environ.get("ACCELERATE_TORCH_DEVICE", "").partition(":")[0] == _name()


def _half_precision(accelerate: ModuleType) -> None:
    """``Accelerator(mixed_precision="fp16")``: made without, then given what it has on other
    devices."""
    original = accelerate.Accelerator.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, *args, **kwargs)
        wanted = given.arguments.get("mixed_precision") or os.environ.get(
            "ACCELERATE_MIXED_PRECISION"
        )
        if not _is_chosen() or str(wanted) != "fp16" or given.arguments.get("cpu"):
            original(self, *args, **kwargs)
            return
        shared = accelerate.AcceleratorState._shared_state  # of all accelerators of the process
        if "_mixed_precision" in shared:
            shared["_mixed_precision"] = "no"
        given.arguments["mixed_precision"] = "no"
        original(*given.args, **given.kwargs)
        shared["_mixed_precision"] = "fp16"
        options = self.scaler_handler.to_kwargs() if self.scaler_handler is not None else {}
        self.native_amp = True
        self.scaler = torch.amp.GradScaler(_name(), **options)

    accelerate.Accelerator.__init__ = initialize


def _brain_floats(training_args: Any) -> None:
    """``TrainingArguments(bf16=True)``."""
    original = training_args.is_torch_bf16_gpu_available
    training_args.is_torch_bf16_gpu_available = lambda: _is_chosen() or original()


def install() -> None:
    """Change the two libraries, now or when they are imported."""
    import_hooks.patch(
        {"accelerate.accelerator": _half_precision, "transformers.training_args": _brain_floats}
    )
