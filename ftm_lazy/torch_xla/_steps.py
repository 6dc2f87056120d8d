"""Where a step ends: `sync` with its closures, and the regions of `compile` and `step`.

ftm cuts by itself, at the end of an optimizer's step and where a value is read; inside of a region
the optimizer's step does not cut, so that a region is one program, as code for torch_xla expects.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import ftm_lazy
from ftm_lazy import _C
from ftm_lazy.device import registration
from ftm_lazy.torch_xla import _closures, _marks

__all__ = ["compile", "step", "sync"]

P = ParamSpec("P")
R = TypeVar("R")


def sync(wait: bool = False, reset_scope: bool = True) -> None:
    """Launch all that is recorded, then runs the closures that `add_step_closure` has queued.

    Args:
        wait: return only when it has run, and raise what went wrong; ``XLA_SYNC_WAIT=1`` says so
        for all calls. reset_scope: accepted; names of operations have no scopes here.
    """
    _marks.count("MarkStep")
    ftm_lazy.sync(wait or os.environ.get("XLA_SYNC_WAIT") == "1")
    _marks.end_of_step()
    _closures.run()


def step() -> AbstractContextManager[None]:
    """Return a context: what is recorded in it runs as one program, launched at its end."""
    return compile()


def compile(
    f: Callable[P, R] | None = None,
    full_graph: bool | None = False,
    name: str | None = None,
    max_different_graphs: int | None = None,
) -> Any:
    """Make one program of what `f` does, or of what happens in ``with compile():``; also a
    decorator, ``@compile()``.

    Args:
        f: a function or a module; None to get the context. full_graph: an error if anything is
        launched inside (a value read, `sync`), rather than a second program. name: of the region in
        messages; `f`'s own by default. max_different_graphs: how many programs `f` may need before
        a call of it is an error.

    Raises RuntimeError in the two cases.
    """
    region = _Region(name or _name(f), bool(full_graph), max_different_graphs, f)
    return region if f is None else region(f)


def _name(f: object) -> str | None:
    return None if f is None else getattr(f, "__name__", None) or str(f)


_programs_of: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


class _Region:
    """The context and decorator of `compile`."""

    def __init__(
        self, name: str | None, full_graph: bool, limit: int | None, f: object = None
    ) -> None:
        self._name, self._full_graph, self._limit = name, full_graph, limit
        self._programs = set() if f is None else _programs_of.setdefault(f, set())
        self._before: list[str] = []

    def __call__(self, f: Callable[P, R]) -> Callable[P, R]:
        inside = self if self._name else _Region(_name(f), self._full_graph, self._limit, f)

        @functools.wraps(f, updated=())
        def compiled(*args: P.args, **kwargs: P.kwargs) -> R:
            with inside:
                return f(*args, **kwargs)

        return compiled

    def __enter__(self) -> None:
        sync()
        self._before.append(_C._forbidden_launch())
        if self._full_graph:
            _C._forbid_launch(
                f"Unexpected execution happens inside the compiled function{self._of()}, exiting: full_graph=True asks for"
                " one program, and a value was read or the trace was cut inside of it"
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
                    f"Maximum number of different graphs allowed per function exceeded: {self._limit}{self._of()};"
                    " ftm_lazy.metrics.report() says what differs"
                )

    def _of(self) -> str:
        return f" ({self._name})" if self._name else ""
