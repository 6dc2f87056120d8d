"""torch_xla.distributed.spmd.xla_sharded_tensor: a tensor that knows how it would be divided."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["XLAShard", "XLAShardedTensor", "no_dispatch"]


@dataclass
class XLAShard:
    """A part of a tensor: the whole, on ftm."""

    data: torch.Tensor
    indices: Any
    shard_device: str
    replica_id: int

    @property
    def unpadded_data(self) -> torch.Tensor:
        """The part; nothing is padded."""
        return self.data


class XLAShardedTensor(torch.Tensor):
    """A tensor with a mark; what is computed from it has none."""

    mesh_shape: tuple[int, ...] | None = None
    partition_spec: Any = None
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
        """The parts that lie here: the whole."""
        return [XLAShard(self.global_tensor, ..., "FTM:0", 0)]

    def load_local_shards_(self, shards: list[XLAShard]) -> None:
        """Take the values of `shards`, which is one, on the CPU; raises ValueError for another
        number."""
        if len(shards) != 1:
            raise ValueError(f"expected 1 shard, got {len(shards)}")
        with torch.no_grad():
            self.global_tensor.copy_(shards[0].data)

    @property
    def sharding_spec(self) -> str:
        """As XLA says that a tensor is whole."""
        return "{replicated}"

    @property
    def sharding_type(self) -> Any:
        """How it lies: whole."""
        from ftm_lazy.torch_xla.distributed.spmd.xla_sharding import ShardingType

        return ShardingType.REPLICATED

    @property
    def placements(self) -> tuple[Any, ...]:
        """As `torch.distributed.tensor` says that a tensor is whole."""
        from torch.distributed.tensor import Replicate

        return tuple(Replicate() for _ in self.mesh_shape or (1,))

    def redistribute(
        self, device_mesh: object, placements: object, *, async_op: bool = False
    ) -> XLAShardedTensor:
        """Return the tensor: it lies whole whatever the placements."""
        return self

    def invalidate_spec_cache(self) -> None:
        """Forget nothing: nothing is kept."""

    invalidate_spec_cache._inert = "nothing is kept that could be out of date"  # type: ignore[attr-defined]


@contextmanager
def no_dispatch() -> Iterator[None]:
    """A context in which subclasses of tensors are not asked."""
    guard = torch._C._DisableTorchDispatch()
    try:
        yield
    finally:
        del guard
