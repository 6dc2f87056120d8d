"""The importable name torch_xla, implemented by `ftm_lazy.torch_xla`."""

from ftm_lazy.torch_xla import _aliases

_aliases.install()  # replaces this module by ftm_lazy.torch_xla in sys.modules
