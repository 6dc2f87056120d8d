"""torch_xla, served by ftm: see `ftm_lazy.torch_xla`."""

from ftm_lazy.torch_xla import _aliases

_aliases.install()  # from here on sys.modules has ftm_lazy.torch_xla under this name
