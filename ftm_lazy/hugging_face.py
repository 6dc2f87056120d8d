"""Mixed precision in Accelerate and Transformers, which know by name the devices that have it.

Both run on ftm when ``ACCELERATE_TORCH_DEVICE=ftm`` is in the environment.  With ``fp16`` Accelerate refuses devices
that are not on a list of its own, and makes a gradient scaler for CUDA; Transformers refuses ``bf16`` likewise.  What is
here asks nothing of either library: it waits until a program imports them, and changes these two answers for ftm.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch

__all__ = ["install"]


def _name() -> str:
    """What the device is called in this process."""
    return torch._C._get_privateuse1_backend_name()


def _is_chosen() -> bool:
    """Whether the two libraries run on ftm."""
    return os.environ.get("ACCELERATE_TORCH_DEVICE", "").partition(":")[0] == _name()


def _half_precision(accelerate: ModuleType) -> None:
    """``Accelerator(mixed_precision="fp16")``: made without, then given what it has on other devices."""
    original = accelerate.Accelerator.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, *args, **kwargs)
        wanted = given.arguments.get("mixed_precision") or os.environ.get("ACCELERATE_MIXED_PRECISION")
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


def _brain_floats(training_args: ModuleType) -> None:
    """``TrainingArguments(bf16=True)``."""
    original = training_args.is_torch_bf16_gpu_available
    training_args.is_torch_bf16_gpu_available = lambda: _is_chosen() or original()


_CHANGES: dict[str, Callable[[ModuleType], None]] = {
    "accelerate.accelerator": _half_precision,
    "transformers.training_args": _brain_floats,
}


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds nothing itself: what others find of these modules is changed when it has run."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if name not in _CHANGES:
            return None
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)), None)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_change(module: ModuleType) -> None:
            run(module)
            _CHANGES[name](module)

        spec.loader.exec_module = run_and_change
        return spec


def install() -> None:
    """Changes the two libraries, those that are imported already and those that will be."""
    for name, change in _CHANGES.items():
        if name in sys.modules:
            change(sys.modules[name])
    sys.meta_path.insert(0, _AfterImport())
