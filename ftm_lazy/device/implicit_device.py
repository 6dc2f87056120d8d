"""The functions of PyTorch that choose a device for the caller: the CPU, until the program uses
ftm.

``nn.DataParallel(model)`` moves the model to the accelerator, if there is one. A program for the
CPU would then compute on ftm, or fail, because ftm is installed. So as long as nothing has used the
device, these functions choose as they do without it. Once the device is in use they choose it, as
PyTorch does on a machine with a GPU.

``torch.accelerator`` and ``torch.get_device_module()`` name ftm at any time: a program that calls
them looks for an accelerator.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ftm_lazy.device.registration import was_used
from ftm_lazy.integrations import import_hooks

__all__ = ["install"]


def _data_parallel(module: Any) -> None:
    """``nn.DataParallel`` and ``nn.parallel.data_parallel`` without `device_ids`."""
    find = module._get_available_device_type

    def available_device_type() -> str | None:
        found = find()
        return (
            None if found == torch._C._get_privateuse1_backend_name() and not was_used() else found
        )

    module._get_available_device_type = available_device_type


def _flex_attention(module: Any) -> None:
    """``create_mask`` and ``create_block_mask`` without `device`."""
    for name in ("create_mask", "create_block_mask"):
        setattr(module, name, _with_default_device(getattr(module, name)))


def _with_default_device(create: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(create)
    def create_on_default_device(
        mod_fn: Any,
        B: Any,
        H: Any,
        Q_LEN: int,
        KV_LEN: int,
        device: Any = None,
        *args: Any,
        **kwargs: Any,  # noqa: N803
    ) -> Any:
        if device is None and not was_used():
            device = "cpu"
        return create(mod_fn, B, H, Q_LEN, KV_LEN, device, *args, **kwargs)

    return create_on_default_device


def _default_mesh(module: Any) -> None:
    """``fully_shard`` and ``replicate`` without `mesh`."""
    create = module._init_default_mesh

    @functools.wraps(create)
    def create_default_mesh(mesh_dim_names: tuple[str, ...] | None = None) -> Any:
        if was_used():
            return create(mesh_dim_names)
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group()
        return torch.distributed.init_device_mesh(
            "cpu", (torch.distributed.get_world_size(),), mesh_dim_names=mesh_dim_names
        )

    module._init_default_mesh = create_default_mesh


def _torchrun(module: Any) -> None:
    """``torchrun --nproc-per-node auto``: a process for each CPU. A process that starts others uses
    no device."""
    determine = module.determine_local_world_size

    @functools.wraps(determine)
    def determine_local_world_size(nproc_per_node: str) -> Any:
        return determine("cpu" if nproc_per_node == "auto" else nproc_per_node)

    module.determine_local_world_size = determine_local_world_size


def install() -> None:
    """Replaces the functions, now or when their modules are imported."""
    import_hooks.change(
        {
            "torch.nn.parallel.data_parallel": _data_parallel,
            "torch.nn.attention.flex_attention": _flex_attention,
            "torch.distributed.fsdp._fully_shard._fully_shard": _default_mesh,
            "torch.distributed._composable.replicate_with_fsdp": _default_mesh,
            "torch.distributed.run": _torchrun,
        }
    )
