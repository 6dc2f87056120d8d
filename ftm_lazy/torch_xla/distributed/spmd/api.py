"""torch_xla.distributed.spmd.api: functions of `torch.distributed.tensor` on a one-device mesh."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence

import numpy as np
import torch

from ftm_lazy.torch_xla.distributed.spmd.xla_sharding import Mesh, mark_sharding

__all__ = [
    "auto_policy",
    "convert_to_xla_mesh",
    "convert_to_xla_partition_spec",
    "with_xla",
    "xla_distribute_module",
    "xla_distribute_tensor",
]


def with_xla(func: Callable[..., object]) -> Callable[..., object]:
    """Enable SPMD when a function is called (decorator)."""

    @functools.wraps(func)
    def with_spmd(self: object, *args: object, **kwargs: object) -> object:
        os.environ["XLA_USE_SPMD"] = "1"
        return func(self, *args, **kwargs)

    return with_spmd


def convert_to_xla_mesh(dt_mesh: torch.distributed.device_mesh.DeviceMesh) -> Mesh:
    """Convert a one-device mesh of `torch.distributed.tensor` to a `Mesh`."""
    ids = np.asarray(dt_mesh.mesh).reshape(-1)
    return Mesh(ids, tuple(dt_mesh.mesh.shape), dt_mesh.mesh_dim_names)


def convert_to_xla_partition_spec(
    tensor: torch.Tensor, placements: Sequence[torch.distributed.tensor.Placement]
) -> tuple[int | None, ...]:
    """Convert placements to the mesh axis, or None, of each dimension of `tensor`."""
    spec: list[int | None] = [None] * tensor.dim()
    for axis, placement in enumerate(placements):
        if placement.is_shard():
            spec[placement.dim] = axis
    return tuple(spec)


def xla_distribute_tensor(
    tensor: torch.Tensor, device_mesh: object, placements: Sequence[object] | None = None
) -> torch.Tensor:
    """Copy a tensor to the device and annotate it.

    Args:
        tensor: The tensor.
        device_mesh: A mesh of one device.
        placements: The placements, as of `torch.distributed.tensor`.
    """
    from ftm_lazy.torch_xla import _devices

    mesh = convert_to_xla_mesh(device_mesh)
    moved = tensor.to(_devices.device())
    return mark_sharding(moved, mesh, convert_to_xla_partition_spec(moved, placements or ()))


def xla_distribute_module(
    module: torch.nn.Module,
    device_mesh: object = None,
    partition_fn: Callable[[str, torch.nn.Module, object], None] | None = None,
    input_fn: Callable[..., object] | None = None,
    output_fn: Callable[..., object] | None = None,
) -> torch.nn.Module:
    """Copy a module to the device, as `torch.distributed.tensor.distribute_module` does.

    Args:
        module: The module.
        device_mesh: A mesh of one device.
        partition_fn: Called with name, submodule and mesh for each submodule.
        input_fn: Called with the inputs and the mesh before each forward pass.
        output_fn: Called with the outputs and the mesh after each forward pass.
    """
    from ftm_lazy.torch_xla import _devices

    if partition_fn is not None and partition_fn is not auto_policy:
        for name, submodule in module.named_modules():
            partition_fn(name, submodule, device_mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda _, inputs: input_fn(inputs, device_mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda _, __, outputs: output_fn(outputs, device_mesh))
    return module.to(_devices.device())


def auto_policy(mod_name: str, mod: torch.nn.Module, mesh: object) -> None:
    """Do nothing; in torch_xla it lets the compiler choose the sharding."""


auto_policy._inert = "one device leaves no choice of sharding"  # type: ignore[attr-defined]
