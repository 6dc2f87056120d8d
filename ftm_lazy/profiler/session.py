"""`profile`: the context manager that records."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ftm_lazy import _C
from ftm_lazy.profiler import module_hooks
from ftm_lazy.profiler.events import Events
from ftm_lazy.profiler.last_profile import set_last_advice
from ftm_lazy.profiler.memory import classify_blocks
from ftm_lazy.profiler.views import Profile


@contextmanager
def profile() -> Iterator[Profile]:
    """Record a profile of the device's work inside the ``with`` block.

    Work recorded before is finished first, and the block's work at its end, so the profile has
    whole programs. The profile is empty until the block ends.

    Yields:
        The profile.

    Raises:
        RuntimeError: Another profile is being recorded, also one of `torch.profiler`.

    Example:
        >>> with ftm_lazy.profile() as p:
        ...     train()
        >>> print(p)
    """
    result = Profile()
    _C._start_profile()
    before = {address: size for address, size, used, _ in _C._memory_segments() if used}
    module_hooks.install()
    begin = time.time_ns()
    try:
        yield result
        _C._sync(True)
        end = time.time_ns()
        owners = classify_blocks()
    except BaseException:
        module_hooks.remove()
        _C._stop_profile()
        raise
    module_hooks.remove()
    events = Events.of(begin, end, threading.get_native_id(), _C._stop_profile())
    result.set_events(events, owners, before)
    set_last_advice(result.advice())
