"""The version of torch_xla whose API this package implements."""

__all__ = ["__version__", "__xla_gitrev__"]

__version__ = "2.9.0"
__xla_gitrev__ = ""
