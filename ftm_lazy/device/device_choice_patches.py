"""Patches of PyTorch functions that pick a device: they pick ftm only once the program uses it.

Example: ``nn.DataParallel(model)`` moves the model to the accelerator if there is one. Installing
ftm must not make a CPU program compute on ftm, or fail. So these functions behave as without ftm
until a tensor is made on the device, or ``set_device`` chooses it. Then they choose ftm, as PyTorch
does on a machine with a GPU.

``torch.accelerator`` and ``torch.get_device_module()`` always return ftm, because a program that
calls them looks for an accelerator.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Protocol

import torch

from ftm_lazy.device.registration import note_device_choice, was_used
from ftm_lazy.integrations import import_hooks
from ftm_lazy.torch_version import private_names


class _BackendConfig(Protocol):
    """What is used of ``torch.distributed.distributed_c10d.BackendConfig``."""

    device_backend_map: dict[str, str]


def _accelerator(module: ModuleType) -> None:
    """Patch ``torch.accelerator.set_device_index`` to note that the program chose the device."""
    set_index = module.set_device_index

    @functools.wraps(set_index)
    def set_device_index(device: object, /) -> None:
        note_device_choice()
        set_index(device)

    module.set_device_index = set_device_index  # type: ignore[attr-defined]


def _data_parallel(module: ModuleType) -> None:
    """Patch ``nn.DataParallel`` and ``nn.parallel.data_parallel`` without `device_ids`."""
    find = module._get_available_device_type

    def available_device_type() -> str | None:
        found = find()
        is_ftm = found == private_names.privateuse1_name()
        return None if is_ftm and not was_used() else found

    module._get_available_device_type = available_device_type  # type: ignore[attr-defined]


def _accelerator_without_ftm() -> str | None:
    """Return the accelerator that PyTorch was built for, as ``current_accelerator`` without ftm."""
    return next((name for name in ("cuda", "xpu") if getattr(torch, name)._is_compiled()), None)


def _flex_attention(module: ModuleType) -> None:
    """Patch ``create_mask`` and ``create_block_mask`` without `device`."""
    for name in ("create_mask", "create_block_mask"):
        setattr(module, name, _with_default_device(getattr(module, name)))


def _with_default_device(create: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(create)
    def create_on_default_device(
        mod_fn: object,
        B: object,
        H: object,
        Q_LEN: int,
        KV_LEN: int,
        device: object = None,
        *args: object,
        **kwargs: object,  # noqa: N803
    ) -> object:
        if device is None and not was_used():
            device = _accelerator_without_ftm() or "cpu"
        return create(mod_fn, B, H, Q_LEN, KV_LEN, device, *args, **kwargs)

    return create_on_default_device


def _default_mesh(module: ModuleType) -> None:
    """Patch ``fully_shard`` and ``replicate`` without `mesh`.

    A model on the CPU or on ``meta`` says nothing about the device: ``fully_shard`` moves it. So a
    group that is named for the device counts, too.
    """
    create = module._init_default_mesh

    @functools.wraps(create)
    def create_default_mesh(mesh_dim_names: tuple[str, ...] | None = None) -> object:
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group()
        if was_used() or _group_is_named_for_ftm():
            return create(mesh_dim_names)
        return torch.distributed.init_device_mesh(
            "cpu", (torch.distributed.get_world_size(),), mesh_dim_names=mesh_dim_names
        )

    module._init_default_mesh = create_default_mesh  # type: ignore[attr-defined]


def _group_is_named_for_ftm() -> bool:
    """Return whether the default group got a backend for the device, or a `device_id` of it."""
    from torch.distributed import distributed_c10d

    backend = torch.distributed.get_backend()
    if backend == distributed_c10d.Backend.UNDEFINED:  # without a name
        return False
    served = distributed_c10d.BackendConfig(backend).get_device_backend_map()
    return private_names.privateuse1_name() in served


def _torchrun(module: ModuleType) -> None:
    """Patch ``torchrun --nproc-per-node auto`` to start one process per CPU.

    The launcher itself never uses a device, so `was_used` does not help here.
    """
    determine = module.determine_local_world_size

    @functools.wraps(determine)
    def determine_local_world_size(nproc_per_node: str) -> object:
        return determine("cpu" if nproc_per_node == "auto" else nproc_per_node)

    module.determine_local_world_size = determine_local_world_size  # type: ignore[attr-defined]


def _default_backend(module: ModuleType) -> None:
    """Patch ``init_process_group`` without a backend: the group also takes CPU tensors.

    Without ftm it is gloo for CPU tensors, which programs that train on the CPU rely on.
    """
    initialize = module.BackendConfig.__init__

    @functools.wraps(initialize)
    def initialize_with_cpu(self: _BackendConfig, backend: object) -> None:
        initialize(self, backend)
        name = private_names.privateuse1_name()
        if str(backend) == module.Backend.UNDEFINED and name in self.device_backend_map:
            self.device_backend_map.setdefault("cpu", module.Backend.GLOO)

    module.BackendConfig.__init__ = initialize_with_cpu


def install() -> None:
    """Patch the functions, now or when their modules are imported."""
    import_hooks.patch(
        {
            "torch.accelerator": _accelerator,
            "torch.nn.parallel.data_parallel": _data_parallel,
            "torch.nn.attention.flex_attention": _flex_attention,
            "torch.distributed.fsdp._fully_shard._fully_shard": _default_mesh,
            "torch.distributed._composable.replicate_with_fsdp": _default_mesh,
            "torch.distributed.distributed_c10d": _default_backend,
            "torch.distributed.run": _torchrun,
        }
    )
