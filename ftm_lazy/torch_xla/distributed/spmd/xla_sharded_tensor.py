"""torch_xla.distributed.spmd.xla_sharded_tensor: a tensor with a sharding annotation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

__all__ = ["XLAShard", "XLAShardedTensor", "no_dispatch"]


@dataclass
class XLAShard:
    """A shard of a tensor, which on ftm is the whole tensor."""

    data: torch.Tensor
    indices: object
    shard_device: str
    replica_id: int

    @property
    def unpadded_data(self) -> torch.Tensor:
        """The shard; shards have no padding."""
        return self.data


class XLAShardedTensor(torch.Tensor):
    """A tensor with a sharding annotation; results computed from it have none."""

    mesh_shape: tuple[int, ...] | None = None
    partition_spec: object = None
    global_tensor: torch.Tensor

    @classmethod
    def _of(
        cls, tensor: torch.Tensor, mesh_shape: object, partition_spec: object
    ) -> XLAShardedTensor:
        plain = tensor.global_tensor if isinstance(tensor, cls) else tensor
        marked = plain.as_subclass(cls)
        marked.global_tensor, marked.mesh_shape, marked.partition_spec = (
            plain,
            mesh_shape,
            partition_spec,
        )
        return marked

    __torch_function__ = torch._C._disabled_torch_function_impl

    @property
    def local_shards(self) -> list[XLAShard]:
        """The shards of this process: one, the whole tensor."""
        return [XLAShard(self.global_tensor, ..., "FTM:0", 0)]

    def load_local_shards_(self, shards: list[XLAShard]) -> None:
        """Copy the values of a shard to the tensor.

        Args:
            shards: One shard, on the CPU.

        Raises:
            ValueError: There is not exactly one shard.
        """
        if len(shards) != 1:
            raise ValueError(f"expected 1 shard, got {len(shards)}")
        with torch.no_grad():
            self.global_tensor.copy_(shards[0].data)

    @property
    def sharding_spec(self) -> str:
        """XLA's notation for an unsharded tensor."""
        return "{replicated}"

    @property
    def sharding_type(self) -> object:
        """The sharding type, which is REPLICATED."""
        from ftm_lazy.torch_xla.distributed.spmd.xla_sharding import ShardingType

        return ShardingType.REPLICATED

    @property
    def placements(self) -> tuple[object, ...]:
        """The placements of `torch.distributed.tensor`: Replicate for each mesh dimension."""
        from torch.distributed.tensor import Replicate

        return tuple(Replicate() for _ in self.mesh_shape or (1,))

    def redistribute(
        self, device_mesh: object, placements: object, *, async_op: bool = False
    ) -> XLAShardedTensor:
        """Return the tensor unchanged: it is never sharded."""
        return self

    def invalidate_spec_cache(self) -> None:
        """Do nothing: there is no cache."""

    invalidate_spec_cache._inert = "there is no cache"  # type: ignore[attr-defined]


@contextmanager
def no_dispatch() -> Iterator[None]:
    """Disable the dispatch to tensor subclasses within the context."""
    guard = torch._C._DisableTorchDispatch()
    try:
        yield
    finally:
        del guard
