"""torch_xla.utils.buffer_donor_context: ftm gives buffers on by itself, where nobody holds them any
more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ftm_lazy.torch_xla._inert import inert

__all__ = ["alias_with_buffer_donor_config"]

_wanted = False


def set_enabled(should_alias: bool) -> None:
    """Says whether marked buffers may be given on."""
    global _wanted
    _wanted = should_alias


def is_enabled() -> bool:
    """What was last said."""
    return _wanted


@inert("which results take over an input's memory is decided by who holds it, in every program")
@contextmanager
def alias_with_buffer_donor_config(should_alias: bool = True) -> Iterator[bool]:
    """Says whether marked buffers may be given on; yields what was said before."""
    before = is_enabled()
    set_enabled(should_alias)
    try:
        yield before
    finally:
        set_enabled(before)
