"""Hooks that tell the recorder which module runs; they exist only while profiling.

A path is that of `named_modules` of the outermost module that was called, such as
``layer3.0.conv2``; the outermost module has its class's name. Calls of an optimizer's step belong
to ``SGD.step``.
"""

from __future__ import annotations

import threading
import time
import weakref

import torch
from torch.nn.modules import module as hooks
from torch.optim import optimizer as optimizer_hooks

from ftm_lazy import _C

_paths: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()
_handles: list[torch.utils.hooks.RemovableHandle] = []
_users = 0
_lock = threading.Lock()


class _Open(threading.local):
    def __init__(self) -> None:
        self.paths: list[str] = []


_open = _Open()


def install() -> None:
    """Begin to follow modules; calls nest."""
    global _users
    with _lock:
        _users += 1
        if _users > 1:
            return
        _handles.extend(
            (
                hooks.register_module_forward_pre_hook(_enter),
                hooks.register_module_forward_hook(_leave, always_call=True),
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
            while _handles:
                _handles.pop().remove()
            _paths.clear()


def _path(module: torch.nn.Module) -> str:
    path = _paths.get(module)
    if path is not None:
        return path
    if _open.paths:  # made or attached after the outermost module was called first
        path = f"{_open.paths[-1]}.{type(module).__name__}"
        _paths[module] = path
        return path
    for name, child in module.named_modules():
        _paths[child] = name or type(module).__name__
    return _paths[module]


def _enter(module: torch.nn.Module, arguments: object) -> None:
    del arguments
    if not torch.compiler.is_compiling():
        path = _path(module)
        _open.paths.append(path)
        _C._push_module(path)


def _leave(module: torch.nn.Module, arguments: object, result: object) -> None:
    del module, arguments, result
    # A module that was entered before the hooks existed is not in the list.
    if not torch.compiler.is_compiling() and _open.paths:
        _open.paths.pop()
        _C._pop_module()


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
