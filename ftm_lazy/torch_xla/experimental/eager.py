"""torch_xla.experimental.eager: launch each operation at once, except in `torch_xla.compile`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ftm_lazy import _C, settings
from ftm_lazy.torch_xla import _steps

__all__ = ["eager_mode", "eager_mode_context", "is_eager_mode"]

_enabled = os.environ.get("XLA_USE_EAGER_DEBUG_MODE") == "1"


def eager_mode(enable: bool) -> None:
    """Enable or disable eager mode, which compiles and launches each operation separately.

    Errors are raised near their line, but execution is slow.

    Args:
        enable: Whether to enable it.
    """
    global _enabled
    _enabled = enable
    _steps.sync()
    _C._set_trace_limit(1 if enable else settings.current().trace_limit)


def is_eager_mode() -> bool:
    """Return whether operations are launched at once."""
    return _enabled


@contextmanager
def eager_mode_context(enable: bool) -> Iterator[bool]:
    """Enable or disable eager mode within the context; yield the previous mode."""
    before = _enabled
    eager_mode(enable)
    try:
        yield before
    finally:
        eager_mode(before)
