"""Let the recorder follow modules and optimizers while a profile is recorded.

Calls of modules are followed by csrc/torch/module_calls.h. Calls of an optimizer's step belong to
``SGD.step``.
"""

from __future__ import annotations

import threading
import time

import torch
from torch.optim import optimizer as optimizer_hooks

from ftm_lazy import _C

_handles: list[torch.utils.hooks.RemovableHandle] = []
_users = 0
_lock = threading.Lock()


def install() -> None:
    """Begin to follow modules; calls nest."""
    global _users
    with _lock:
        _users += 1
        if _users > 1:
            return
        _C._follow_modules(True)
        _handles.extend(
            (
                optimizer_hooks.register_optimizer_step_pre_hook(_begin_step),
                optimizer_hooks.register_optimizer_step_post_hook(_end_step),
            )
        )


def remove() -> None:
    """End one `install`."""
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            _C._follow_modules(False)
            while _handles:
                _handles.pop().remove()


def _begin_step(optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
    del args, kwargs
    if not torch.compiler.is_compiling():
        _C._push_module(f"{type(optimizer).__name__}.step")


def _end_step(optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
    del args, kwargs
    if not torch.compiler.is_compiling():
        _C._pop_module()
        now = time.time_ns()
        _C._add_event("step", f"{type(optimizer).__name__}.step", "", now, now)
