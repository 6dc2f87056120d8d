"""Ends of steps: `sync` with its closures, and the regions of `compile` and `step`.

ftm cuts the trace at the end of `optimizer.step()` and at each read of a value. Within a region an
optimizer step does not cut, so the region is one program, as torch_xla programs expect.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, overload

import ftm_lazy
from ftm_lazy import _C
from ftm_lazy.device import registration
from ftm_lazy.torch_xla import _closures, _debug_counters

__all__ = ["compile", "step", "sync"]

P = ParamSpec("P")
R = TypeVar("R")


def sync(wait: bool = False, reset_scope: bool = True) -> None:
    """Launch all pending operations, then run the queued step closures.

    Args:
        wait: Wait for the programs, and raise their errors. ``XLA_SYNC_WAIT=1`` sets it for all
            calls.
        reset_scope: Accepted; operation names have no scopes on ftm.
    """
    _debug_counters.count("MarkStep")
    ftm_lazy.sync(wait or os.environ.get("XLA_SYNC_WAIT") == "1")
    _debug_counters.end_of_step()
    _closures.run()


def step() -> AbstractContextManager[None]:
    """Return a context manager whose operations run as one program, launched at its end."""
    return compile()


@overload
def compile(
    f: Callable[P, R],
    full_graph: bool | None = False,
    name: str | None = None,
    max_different_graphs: int | None = None,
) -> Callable[P, R]: ...
@overload
def compile(
    f: None = None,
    full_graph: bool | None = False,
    name: str | None = None,
    max_different_graphs: int | None = None,
) -> _Region: ...
def compile(
    f: Callable[P, R] | None = None,
    full_graph: bool | None = False,
    name: str | None = None,
    max_different_graphs: int | None = None,
) -> Callable[P, R] | _Region:
    """Run a function or a ``with`` block as one program.

    Also usable as a decorator, ``@compile()``. Calls within the region raise RuntimeError if
    `full_graph` or `max_different_graphs` is violated.

    Args:
        f: A function or a module; None to get the context manager.
        full_graph: Make a launch within the region (a read of a value, `sync`) an error. Otherwise
            it starts a second program.
        name: Name of the region in messages; by default that of `f`.
        max_different_graphs: Number of different programs from which a call is an error.

    Returns:
        The compiled function, or the context manager.
    """
    region = _Region(name or _name(f), bool(full_graph), max_different_graphs, f)
    return region if f is None else region(f)


def _name(f: object) -> str | None:
    return None if f is None else getattr(f, "__name__", None) or str(f)


_programs_of: weakref.WeakKeyDictionary[object, set[str]] = weakref.WeakKeyDictionary()


class _Region:
    """The context manager and decorator of `compile`."""

    def __init__(
        self, name: str | None, full_graph: bool, limit: int | None, f: object = None
    ) -> None:
        self._name, self._full_graph, self._limit = name, full_graph, limit
        self._programs = set() if f is None else _programs_of.setdefault(f, set())
        self._before: list[str] = []

    def __call__(self, f: Callable[P, R]) -> Callable[P, R]:
        region = self if self._name else _Region(_name(f), self._full_graph, self._limit, f)

        @functools.wraps(f, updated=())
        def compiled(*args: P.args, **kwargs: P.kwargs) -> R:
            with region:
                return f(*args, **kwargs)

        return compiled

    def __enter__(self) -> None:
        sync()
        self._before.append(_C._forbidden_launch())
        if self._full_graph:
            _C._forbid_launch(
                f"Unexpected execution happens inside the compiled function{self._label()},"
                " exiting: full_graph=True requires one program, and a value was read or the trace"
                " was cut inside of it"
            )
        registration.hold_steps(+1)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        registration.hold_steps(-1)
        _C._forbid_launch(self._before.pop())
        launched = _C._launches()
        sync()
        if self._limit is not None and _C._launches() != launched:
            self._programs.add(_C._last_program())
            if kind is None and len(self._programs) > self._limit:
                raise RuntimeError(
                    "Maximum number of different graphs allowed per function exceeded:"
                    f" {self._limit}{self._label()}; ftm_lazy.metrics.report() shows the"
                    " differences"
                )

    def _label(self) -> str:
        return f" ({self._name})" if self._name else ""
