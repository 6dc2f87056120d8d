"""The choice of ftm, mixed precision and several processes, in Accelerate and Transformers.

Both libraries run on ftm if the environment has ``ACCELERATE_TORCH_DEVICE=ftm``, which is also how
a default device (`is_default`) becomes theirs. ``device_map="auto"`` then means ftm. But Accelerate
rejects ``fp16`` for devices that are not on its list, and creates a gradient scaler for CUDA;
Transformers rejects ``bf16`` in the same way. Under torchrun, Accelerate looks for the devices on
its list, and finds none; then each process would train alone, on all data. The patches change these
checks for ftm when the libraries are imported.
"""

from __future__ import annotations

import functools
import inspect
import os
from types import ModuleType
from typing import Protocol

import torch

from ftm_lazy.device.default_device import is_default
from ftm_lazy.integrations import import_hooks, transformers_generation
from ftm_lazy.torch_version import private_names


def _name() -> str:
    """Return the device type's name in this process."""
    return private_names.privateuse1_name()


def _is_chosen() -> bool:
    """Return whether the environment selects ftm for both libraries."""
    return os.environ.get("ACCELERATE_TORCH_DEVICE", "").partition(":")[0] == _name()


def _choose_default(state: ModuleType) -> None:
    """Patch ``PartialState``, which chooses the device when it is first created."""
    original = state.PartialState.__init__

    @functools.wraps(original)
    def initialize(self: object, *args: object, **kwargs: object) -> None:
        if is_default():
            os.environ.setdefault("ACCELERATE_TORCH_DEVICE", _name())
        original(self, *args, **kwargs)

    state.PartialState.__init__ = initialize


class _Accelerator(Protocol):
    """What is used of ``accelerate.Accelerator``."""

    native_amp: bool
    scaler: torch.amp.GradScaler
    scaler_handler: _ScalerHandler | None


class _ScalerHandler(Protocol):
    def to_kwargs(self) -> dict[str, object]: ...


class _PartialState(Protocol):
    """What is used of ``accelerate.PartialState``."""

    device: torch.device | None
    distributed_type: object
    local_process_index: int


def _map_automatically(modeling: ModuleType) -> None:
    """Patch ``from_pretrained(device_map="auto")``: it then means ftm, the only device."""
    original = modeling.check_and_set_device_map

    @functools.wraps(original)
    def check_and_set(device_map: object) -> object:
        is_automatic = device_map in ("auto", "balanced", "balanced_low_0", "sequential")
        return original(_name() if is_automatic and is_default() else device_map)

    modeling.check_and_set_device_map = check_and_set  # type: ignore[attr-defined]


def _allow_fp16(accelerate: ModuleType) -> None:
    """Patch ``Accelerator(mixed_precision="fp16")``.

    The accelerator is created without mixed precision, then gets autocast and a gradient scaler.
    """
    original = accelerate.Accelerator.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def initialize(self: _Accelerator, *args: object, **kwargs: object) -> None:
        bound = signature.bind(self, *args, **kwargs)
        precision = bound.arguments.get("mixed_precision")
        precision = precision or os.environ.get("ACCELERATE_MIXED_PRECISION")
        if not _is_chosen() or str(precision) != "fp16" or bound.arguments.get("cpu"):
            original(self, *args, **kwargs)
            return
        # shared by all accelerators of the process
        shared = accelerate.AcceleratorState._shared_state
        if "_mixed_precision" in shared:
            shared["_mixed_precision"] = "no"
        bound.arguments["mixed_precision"] = "no"
        original(*bound.args, **bound.kwargs)
        shared["_mixed_precision"] = "fp16"
        options = self.scaler_handler.to_kwargs() if self.scaler_handler is not None else {}
        self.native_amp = True
        self.scaler = torch.amp.GradScaler(_name(), **options)

    accelerate.Accelerator.__init__ = initialize


def _allow_bf16(training_args: ModuleType) -> None:
    """Patch the check of ``TrainingArguments(bf16=True)``."""
    original = training_args.is_torch_bf16_gpu_available

    def is_available() -> bool:
        return _is_chosen() or original()

    training_args.is_torch_bf16_gpu_available = is_available  # type: ignore[attr-defined]


def _distribute(state: ModuleType) -> None:
    """Patch ``PartialState``, which connects the processes of torchrun.

    As for CUDA, process i of a host uses device i.
    """
    partial_state = state.PartialState
    prepare, set_device = partial_state._prepare_backend, partial_state.set_device

    @functools.wraps(prepare)
    def prepare_backend(
        self: object, cpu: bool = False, sagemaker_dp: bool = False, backend: str | None = None
    ) -> tuple[str | None, object]:
        if _is_chosen() and not cpu and int(os.environ.get("LOCAL_RANK", "-1")) != -1:
            return backend or _name(), state.DistributedType.MULTI_GPU
        chosen: tuple[str | None, object] = prepare(self, cpu, sagemaker_dp, backend)
        return chosen

    @functools.wraps(set_device)
    def set_local_device(self: _PartialState) -> None:
        if (
            self.device is not None
            and self.device.type == _name()
            and self.device.index is None
            and self.distributed_type != state.DistributedType.NO
        ):
            index = self.local_process_index % torch.ftm.device_count()
            self.device = torch.device(_name(), index)
            torch.ftm.set_device(index)
        set_device(self)

    partial_state._prepare_backend, partial_state.set_device = prepare_backend, set_local_device


def _patch_state(state: ModuleType) -> None:
    _choose_default(state)
    _distribute(state)


def install() -> None:
    """Patch both libraries, now or when they are imported."""
    import_hooks.patch(
        {
            "accelerate.state": _patch_state,
            "accelerate.accelerator": _allow_fp16,
            "transformers.generation.utils": transformers_generation.defer_stop,
            "transformers.modeling_utils": _map_automatically,
            "transformers.training_args": _allow_bf16,
        }
    )
