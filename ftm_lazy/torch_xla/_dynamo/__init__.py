"""torch_xla._dynamo: where torch_xla keeps its bridge from Dynamo's graphs; programs import parts
of it."""

from ftm_lazy.torch_xla._dynamo import config, dynamo_backend2, dynamo_bridge

__all__ = ["config", "dynamo_backend2", "dynamo_bridge"]
