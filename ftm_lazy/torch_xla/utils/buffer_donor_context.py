"""torch_xla.utils.buffer_donor_context: buffer donation, which is automatic on ftm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ftm_lazy.torch_xla._inert import inert

__all__ = ["alias_with_buffer_donor_config"]

_enabled = False


def set_enabled(should_alias: bool) -> None:
    """Set the result of `is_enabled`; it has no other effect."""
    global _enabled
    _enabled = should_alias


def is_enabled() -> bool:
    """Return the value of `set_enabled`."""
    return _enabled


@inert("results reuse the memory of inputs that are no longer referenced, in every program")
@contextmanager
def alias_with_buffer_donor_config(should_alias: bool = True) -> Iterator[bool]:
    """Set `is_enabled` within the context; yield its previous value."""
    before = is_enabled()
    set_enabled(should_alias)
    try:
        yield before
    finally:
        set_enabled(before)
