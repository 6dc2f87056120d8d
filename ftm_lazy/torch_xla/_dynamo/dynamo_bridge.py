"""torch_xla._dynamo.dynamo_bridge: the newer name of `core.dynamo_bridge`."""

from ftm_lazy.torch_xla.core import dynamo_bridge
from ftm_lazy.torch_xla.core.dynamo_bridge import extract_compiled_graph

__all__ = ["extract_compiled_graph"]

__getattr__ = dynamo_bridge.__getattr__
