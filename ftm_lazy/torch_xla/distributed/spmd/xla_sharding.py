"""torch_xla.distributed.spmd.xla_sharding: one-device meshes and sharding annotations."""

from __future__ import annotations

import ast
import enum
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ftm_lazy.torch_xla import _refusals
from ftm_lazy.torch_xla._inert import inert
from ftm_lazy.torch_xla.distributed.spmd.xla_sharded_tensor import XLAShardedTensor

__all__ = [
    "HybridMesh",
    "Mesh",
    "PartitionSpec",
    "ShardingSpec",
    "ShardingType",
    "annotate_custom_sharding",
    "apply_backward_optimization_barrier",
    "clear_sharding",
    "get_1d_mesh",
    "get_global_mesh",
    "mark_sharding",
    "mark_sharding_with_gradients",
    "set_global_mesh",
    "shard_as",
    "unwrap_sharded_tensor",
    "wrap_as_sharded_tensor",
    "wrap_if_sharded",
]

__getattr__ = _refusals.getter(__name__)

PartitionSpec = tuple[tuple[int | str, ...] | int | str | None, ...]
"""For each dimension of a tensor the mesh axes that shard it, or None."""

_ONE = "a process has one device, so tensors are never sharded"


class ShardingType(enum.IntEnum):
    """Kind of sharding; on ftm it is always REPLICATED."""

    REPLICATED = 0
    MAXIMAL = 1
    TUPLE = 2
    TILED = 3
    MANUAL = 4
    PARTIAL = 5
    UNKNOWN = 6


class Mesh:
    """A logical array of devices.

    Args:
        device_ids: Indices of the devices: [0].
        mesh_shape: Shape of the array, all ones.
        axis_names: Names of its dimensions.

    Raises:
        NotImplementedError: There is more than one device.
        ValueError: The arguments do not match.
    """

    def __init__(
        self,
        device_ids: np.ndarray | Sequence[int],
        mesh_shape: tuple[int, ...],
        axis_names: tuple[str, ...] | None = None,
    ) -> None:
        ids = np.asarray(device_ids)
        if ids.size > 1:
            raise NotImplementedError(
                f"torch_xla.distributed.spmd.Mesh of {ids.size} devices is not served on ftm: a"
                " process has one device. Instead: run several processes (torch_xla.launch) with"
                " DistributedDataParallel or FSDP."
            )
        if ids.size != int(np.prod(mesh_shape)):
            raise ValueError(
                f"Number of device IDs ({ids.size}) must match mesh size"
                f" ({int(np.prod(mesh_shape))})"
            )
        if axis_names is not None and (
            len(axis_names) != len(mesh_shape) or len(set(axis_names)) != len(axis_names)
        ):
            raise ValueError(
                f"axis names {axis_names} do not name the {len(mesh_shape)} dimensions"
            )
        self.device_ids, self.mesh_shape, self.axis_names = ids, tuple(mesh_shape), axis_names

    def size(self) -> int:
        """Return the number of devices."""
        return int(np.prod(self.mesh_shape))

    def shape(self) -> OrderedDict[object, int]:
        """Return the name or index of each dimension, to its size."""
        names = self.axis_names or range(len(self.mesh_shape))
        return OrderedDict(zip(names, self.mesh_shape, strict=True))

    def get_logical_mesh(self) -> np.ndarray:
        """Return the array of device indices."""
        return self.device_ids.reshape(self.mesh_shape)

    def get_axis_name_idx(self, name: str) -> int | None:
        """Return the index of the dimension `name`; None if there is none."""
        return self.axis_names.index(name) if self.axis_names and name in self.axis_names else None

    def get_op_sharding(self, partition_spec: PartitionSpec) -> ShardingType:
        """Check a partition spec, and return REPLICATED."""
        _check(self, partition_spec)
        return ShardingType.REPLICATED

    def get_jax_mesh(self) -> object:
        """Raise NotImplementedError: ftm does not use JAX."""
        raise NotImplementedError(
            "torch_xla.distributed.spmd.Mesh.get_jax_mesh is not served on ftm: there is no JAX"
        )

    @staticmethod
    def from_str(mesh_str: str) -> Mesh | None:
        """Parse the result of `str` of a mesh; None if the text has another form."""
        try:
            fields = ast.literal_eval(mesh_str)
            return Mesh(fields["device_ids"], fields["mesh_shape"], fields["axis_names"])
        except (ValueError, SyntaxError, KeyError, TypeError):
            return None

    def __str__(self) -> str:
        shown = {
            "device_ids": self.device_ids.tolist(),
            "mesh_shape": self.mesh_shape,
            "axis_names": self.axis_names,
        }
        return str(shown)


class HybridMesh(Mesh):
    """A mesh over hosts and the devices of each host.

    Args:
        ici_mesh_shape: Shape within a host.
        dcn_mesh_shape: Shape over hosts; None for ones.
        axis_names: Names of the dimensions.
    """

    def __init__(
        self,
        *,
        ici_mesh_shape: tuple[int, ...],
        dcn_mesh_shape: tuple[int, ...] | None = None,
        axis_names: tuple[str, ...] | None = None,
    ) -> None:
        shape = tuple(
            np.multiply(ici_mesh_shape, dcn_mesh_shape or (1,) * len(ici_mesh_shape)).tolist()
        )
        super().__init__(np.arange(int(np.prod(shape))), shape, axis_names)


_global_mesh: Mesh | None = None


def set_global_mesh(mesh: Mesh) -> None:
    """Set the result of `get_global_mesh`."""
    global _global_mesh
    _global_mesh = mesh


def get_global_mesh() -> Mesh | None:
    """Return the mesh of `set_global_mesh`, or None."""
    return _global_mesh


def get_1d_mesh(axis_name: str | None = None) -> Mesh:
    """Return a one-dimensional mesh of all devices."""
    return Mesh(np.arange(1), (1,), None if axis_name is None else (axis_name,))


def _check(mesh: Mesh, spec: PartitionSpec, dims: int | None = None) -> None:
    """Raise ValueError if `spec` does not match the mesh, or a tensor of `dims` dimensions."""
    if dims is not None and len(spec) != dims:
        raise ValueError(
            f"Partition spec length ({len(spec)}) should be equal to the tensor's dimensions"
            f" ({dims})"
        )
    axes = [
        axis
        for each in spec
        if each is not None
        for axis in (each if isinstance(each, tuple) else (each,))
    ]
    numbers = [
        mesh.get_axis_name_idx(axis) if isinstance(axis, str) else axis
        for axis in axes
        if axis is not None
    ]
    if any(number is None or not 0 <= number < len(mesh.mesh_shape) for number in numbers):
        raise ValueError(f"partition_spec {spec} names axes that the mesh {mesh} does not have")
    if len(set(numbers)) != len(numbers):
        raise ValueError(
            f"Each device mesh dimension should appear at most once in partition_spec {spec}."
        )


@dataclass
class ShardingSpec:
    """A mesh and a partition spec, for device loaders."""

    mesh: Mesh
    partition_spec: PartitionSpec
    minibatch: bool | None = False

    def can_apply(self, t: torch.Tensor) -> bool:
        """Return whether `t` has as many dimensions as the spec."""
        return t.dim() == len(self.partition_spec)

    def xla_spec(self, t: torch.Tensor) -> PartitionSpec | None:
        """Return the partition spec if it applies to `t`, else None."""
        return self.partition_spec if self.can_apply(t) else None

    def apply(self, t: torch.Tensor) -> None:
        """Call `mark_sharding` for `t`."""
        mark_sharding(t, self.mesh, self.partition_spec)


@inert(_ONE)
def mark_sharding(t: torch.Tensor, mesh: Mesh, partition_spec: PartitionSpec) -> XLAShardedTensor:
    """Return `t` with a sharding annotation.

    Args:
        t: The tensor.
        mesh: The mesh.
        partition_spec: The mesh axes of each dimension.

    Raises:
        ValueError: The spec does not match the tensor or the mesh.
    """
    _check(mesh, partition_spec, t.dim())
    return wrap_as_sharded_tensor(t, mesh.mesh_shape, partition_spec)


@inert(_ONE)
def mark_sharding_with_gradients(
    t: torch.Tensor, mesh: Mesh, partition_spec: PartitionSpec
) -> torch.Tensor:
    """Check the spec and return `t`; in torch_xla its gradient is sharded in the same way."""
    _check(mesh, partition_spec, t.dim())
    return t


@inert(_ONE)
def annotate_custom_sharding(
    t: torch.Tensor, mesh: Mesh, partition_spec: PartitionSpec
) -> XLAShardedTensor:
    """Call `mark_sharding`."""
    return mark_sharding(t, mesh, partition_spec)


@inert(_ONE)
def shard_as(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return both tensors; in torch_xla they are sharded in the same way."""
    return a, b


@inert(_ONE)
def clear_sharding(t: torch.Tensor) -> torch.Tensor:
    """Return `t` without its annotation."""
    return unwrap_sharded_tensor(t)


@inert("the compiler never moves work across the end of a checkpointed segment")
def apply_backward_optimization_barrier(m: torch.nn.Module) -> None:
    """Do nothing; in torch_xla it separates the backward passes of modules."""


def wrap_as_sharded_tensor(
    t: torch.Tensor,
    mesh_shape: tuple[int, ...] | None = None,
    partition_spec: PartitionSpec | None = None,
) -> XLAShardedTensor:
    """Return `t` as an annotated tensor that shares its storage."""
    return XLAShardedTensor._of(t, mesh_shape, partition_spec)


@inert(_ONE)
def wrap_if_sharded(x: object) -> object:
    """Return `x`: no tensor is sharded."""
    return x


def unwrap_sharded_tensor(t: torch.Tensor) -> torch.Tensor:
    """Return the plain tensor of an annotated one."""
    return t.global_tensor if isinstance(t, XLAShardedTensor) else t
