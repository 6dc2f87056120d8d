"""torch_xla.distributed.spmd: meshes and sharding annotations, for meshes of one device."""

from ftm_lazy.torch_xla import _refusals
from ftm_lazy.torch_xla.distributed.spmd.api import (
    auto_policy,
    xla_distribute_module,
    xla_distribute_tensor,
)
from ftm_lazy.torch_xla.distributed.spmd.xla_sharded_tensor import XLAShard, XLAShardedTensor
from ftm_lazy.torch_xla.distributed.spmd.xla_sharding import (
    HybridMesh,
    Mesh,
    ShardingSpec,
    ShardingType,
    annotate_custom_sharding,
    apply_backward_optimization_barrier,
    clear_sharding,
    get_1d_mesh,
    get_global_mesh,
    mark_sharding,
    mark_sharding_with_gradients,
    set_global_mesh,
    shard_as,
    wrap_if_sharded,
)

__all__ = [
    "HybridMesh",
    "Mesh",
    "ShardingSpec",
    "ShardingType",
    "XLAShard",
    "XLAShardedTensor",
    "annotate_custom_sharding",
    "apply_backward_optimization_barrier",
    "auto_policy",
    "clear_sharding",
    "get_1d_mesh",
    "get_global_mesh",
    "mark_sharding",
    "mark_sharding_with_gradients",
    "set_global_mesh",
    "shard_as",
    "wrap_if_sharded",
    "xla_distribute_module",
    "xla_distribute_tensor",
]

__getattr__ = _refusals.getter(__name__)
