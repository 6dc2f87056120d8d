"""torch_xla._dynamo: names of torch_xla's Dynamo backend that programs import."""

from ftm_lazy.torch_xla._dynamo import config, dynamo_backend2, dynamo_bridge

__all__ = ["config", "dynamo_backend2", "dynamo_bridge"]
