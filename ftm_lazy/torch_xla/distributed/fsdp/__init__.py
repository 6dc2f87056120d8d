"""torch_xla.distributed.fsdp: parameters sharded over processes, with PyTorch's FSDP2."""

from ftm_lazy.torch_xla.distributed.fsdp.state_dict_utils import (
    consolidate_sharded_model_checkpoints,
    consolidate_sharded_state_dicts,
)
from ftm_lazy.torch_xla.distributed.fsdp.utils import checkpoint_module
from ftm_lazy.torch_xla.distributed.fsdp.xla_fully_sharded_data_parallel import (
    XlaFullyShardedDataParallel,
)

__all__ = [
    "XlaFullyShardedDataParallel",
    "checkpoint_module",
    "consolidate_sharded_model_checkpoints",
    "consolidate_sharded_state_dicts",
]
