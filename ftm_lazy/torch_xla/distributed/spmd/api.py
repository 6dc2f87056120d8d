"""torch_xla.distributed.spmd.api: `torch.distributed.tensor`'s calls, on a mesh of size one."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

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


def with_xla(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: SPMD is on in the function."""

    @functools.wraps(func)
    def inside(self: object, *args: object, **kwargs: object) -> Any:
        os.environ["XLA_USE_SPMD"] = "1"
        return func(self, *args, **kwargs)

    return inside


def convert_to_xla_mesh(dt_mesh: Any) -> Mesh:
    """Return a mesh of `torch.distributed.tensor`, of size one, as ours."""
    ids = np.asarray(dt_mesh.mesh).reshape(-1)
    return Mesh(ids, tuple(dt_mesh.mesh.shape), dt_mesh.mesh_dim_names)


def convert_to_xla_partition_spec(
    tensor: torch.Tensor, placements: Sequence[Any]
) -> tuple[int | None, ...]:
    """Placements as the axis, or None, for each dimension of `tensor`."""
    spec: list[int | None] = [None] * tensor.dim()
    for axis, placement in enumerate(placements):
        if placement.is_shard():
            spec[placement.dim] = axis
    return tuple(spec)


def xla_distribute_tensor(
    tensor: torch.Tensor, device_mesh: object, placements: Sequence[Any] | None = None
) -> torch.Tensor:
    """`tensor` on the device, with its mark."""
    from ftm_lazy.torch_xla import _devices

    mesh = convert_to_xla_mesh(device_mesh)
    moved = tensor.to(_devices.device())
    return mark_sharding(moved, mesh, convert_to_xla_partition_spec(moved, placements or ()))


def xla_distribute_module(
    module: torch.nn.Module,
    device_mesh: object = None,
    partition_fn: Callable[[str, torch.nn.Module, Any], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> torch.nn.Module:
    """`module` on the device; `partition_fn` sees each submodule, as in
    `torch.distributed.tensor.distribute_module`."""
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
    """The policy that lets the compiler choose; on one device there is nothing to choose."""


auto_policy._inert = "on one device there is nothing to choose"  # type: ignore[attr-defined]
