"""torch_xla.utils.utils: nested structures of tensors, test data, and small helpers."""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import torch

__all__ = [
    "Cleaner",
    "DataWrapper",
    "FnDataGenerator",
    "LazyProperty",
    "SampleGenerator",
    "TimedScope",
    "TmpFolder",
    "as_list",
    "check_env_flag",
    "eprint",
    "flatten_nested_tuple",
    "for_each_instance",
    "for_each_instance_rewrite",
    "get_free_tcp_ports",
    "get_print_fn",
    "getenv_as",
    "list_copy_append",
    "null_print",
    "parallel_work",
    "shape",
    "timed",
]


T = TypeVar("T")


class Cleaner:
    """Calls `func` when it is deleted."""

    def __init__(self, func: Callable[[], object]) -> None:
        self.func = func

    def __del__(self) -> None:
        self.func()


class LazyProperty(Generic[T]):
    """A value that `gen_fn` computes at the first access."""

    def __init__(self, gen_fn: Callable[[], T]) -> None:
        self._make: Callable[[], T] | None = gen_fn

    @property
    def value(self) -> T:
        """The value."""
        if self._make is not None:
            self._value, self._make = self._make(), None
        return self._value


class TmpFolder:
    """A temporary directory `name`, which is removed with this object."""

    def __init__(self) -> None:
        self.name = name = tempfile.mkdtemp()
        self.cleaner = Cleaner(lambda: shutil.rmtree(name, ignore_errors=True))


# --- data


class SampleGenerator(Generic[T]):
    """Iterator that returns the same data `sample_count` times, as a stand-in for a DataLoader."""

    def __init__(self, data: T, sample_count: int) -> None:
        self._data, self._count, self._given = data, sample_count, 0

    def __iter__(self) -> SampleGenerator[T]:
        return SampleGenerator(self._data, self._count)

    def __len__(self) -> int:
        return self._count

    def __next__(self) -> T:
        return self.next()

    def next(self) -> T:
        """Return the data; raises StopIteration at the end."""
        if self._given >= self._count:
            raise StopIteration
        self._given += 1
        return self._data


class FnDataGenerator(Generic[T]):
    """Iterator over pairs ``data, func(data)``.

    Args:
        func: Computes the target of a batch.
        batch_size: First dimension of a batch.
        gen_tensor: Creates a tensor of given sizes, e.g. `torch.randn`.
        dims: The other dimensions; None for one dimension of size 1.
        count: Number of batches.
    """

    def __init__(
        self,
        func: Callable[[torch.Tensor], T],
        batch_size: int,
        gen_tensor: Callable[..., torch.Tensor],
        dims: Iterable[int] | None = None,
        count: int = 1,
    ) -> None:
        self._arguments = (func, batch_size, gen_tensor, list(dims) if dims else [1], count)
        self._given = 0

    def __iter__(self) -> FnDataGenerator[T]:
        return FnDataGenerator(*self._arguments)

    def __len__(self) -> int:
        return self._arguments[-1]

    def __next__(self) -> tuple[torch.Tensor, T]:
        return self.next()

    def next(self) -> tuple[torch.Tensor, T]:
        """Return the next pair; raises StopIteration at the end."""
        func, batch_size, gen_tensor, dims, count = self._arguments
        if self._given >= count:
            raise StopIteration
        self._given += 1
        data = gen_tensor(batch_size, *dims)
        return data, func(data)


class DataWrapper:
    """Base class of objects that control which of their tensors are copied to the device."""

    def get_tensors(self) -> list[torch.Tensor]:
        """Return the CPU tensors to copy."""
        raise NotImplementedError("The method is missing an implementation")

    def from_tensors(self, tensors: list[torch.Tensor]) -> Self:
        """Return an instance with `tensors` instead of those of `get_tensors`."""
        raise NotImplementedError("The method is missing an implementation")


# --- structures


def as_list(t: object) -> object:
    """Return `t` if it is a tuple or a list, else a list with it."""
    return t if isinstance(t, (tuple, list)) else [t]


def _members(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield item
    elif isinstance(value, (list, tuple, set)):
        yield from value
    elif isinstance(value, DataWrapper):
        yield from value.get_tensors()
    elif hasattr(value, "__dict__"):
        yield from vars(value).values()


def for_each_instance(
    value: object, select_fn: Callable[..., bool], fn: Callable[..., object]
) -> None:
    """Call a function once for each selected object of a structure, in order.

    Args:
        value: The structure.
        select_fn: Whether an object is selected.
        fn: The function.
    """
    seen: set[int] = set()

    def visit(part: object) -> None:
        if id(part) in seen:
            return
        seen.add(id(part))
        if select_fn(part):
            fn(part)
        else:
            for member in _members(part):
                visit(member)

    visit(value)


def for_each_instance_rewrite(
    value: object, select_fn: Callable[..., bool], fn: Callable[..., object]
) -> object:
    """Return a copy of a structure with `fn(x)` instead of each selected object x.

    An object that occurs twice is replaced once; tuples become lists.

    Args:
        value: The structure.
        select_fn: Whether an object is selected.
        fn: The replacement function.
    """
    done: dict[int, object] = {}
    kept: list[object] = []  # keeps temporary objects alive, so that ids stay unique

    def rewrite(part: object) -> Any:
        if id(part) in done:
            return done[id(part)]
        kept.append(part)
        if select_fn(part):
            result = fn(part)
        elif isinstance(part, dict):
            result = done[id(part)] = {}
            result.update((rewrite(key), rewrite(item)) for key, item in part.items())
        elif isinstance(part, set):
            result = done[id(part)] = set()
            result.update(rewrite(item) for item in part)
        elif isinstance(part, (list, tuple)):
            result = done[id(part)] = []
            result.extend(rewrite(item) for item in part)
        elif isinstance(part, DataWrapper):
            result = part.from_tensors([rewrite(tensor) for tensor in part.get_tensors()])
        elif hasattr(part, "__dict__"):
            result = done[id(part)] = copy.copy(part)
            if result is not part:
                vars(result).update({key: rewrite(item) for key, item in vars(part).items()})
        else:
            result = part
        done[id(part)] = result
        return result

    return rewrite(value)


def shape(inputs: object) -> list[int]:
    """Return the shape of nested lists and tuples; AssertionError if it is not regular."""
    if not isinstance(inputs, (list, tuple)):
        return []
    inner = [shape(each) for each in inputs]
    if any(each != inner[0] for each in inner):
        raise AssertionError("the lists have different lengths")
    return [len(inputs), *(inner[0] if inner else [])]


def flatten_nested_tuple(inputs: object) -> tuple[object, ...]:
    """Return the elements of nested lists and tuples, in order."""
    if not isinstance(inputs, (list, tuple)):
        return (inputs,)
    return tuple(leaf for each in inputs for leaf in flatten_nested_tuple(each))


def list_copy_append(ilist: Iterable[T], item: T) -> list[T]:
    """Return a list with the items of `ilist` and `item`."""
    return [*ilist, item]


# --- environment, printing, time


def getenv_as(name: str, type: Callable[[str], object], defval: object = None) -> object:
    """Return an environment variable converted to a type.

    Args:
        name: The variable.
        type: The type; booleans are written 0 or 1.
        defval: The result if the variable is not set.
    """
    value = os.environ.get(name)
    if value is None:
        return defval
    return bool(int(value)) if type is bool else type(value)


def check_env_flag(name: str, default: str = "") -> bool:
    """Return whether the environment variable `name` is "true" or a number above 0."""
    value = os.environ.get(name, default)
    return value == "true" or (value.isdigit() and int(value) > 0)


def null_print(*args: object, **kwargs: object) -> None:
    """Print nothing."""


def eprint(*args: Any, **kwargs: Any) -> None:
    """Print to stderr."""
    print(*args, file=sys.stderr, **kwargs)


def get_print_fn(debug: object = None) -> Callable[..., None]:
    """Return `eprint` or `null_print`.

    Args:
        debug: Whether to print; None for the environment variable ``DEBUG``.
    """
    enabled = int(os.environ.get("DEBUG", "0")) if debug is None else debug
    return eprint if enabled else null_print


def timed(fn: Callable[[], T], msg: str = "", printfn: Callable[..., object] | None = eprint) -> T:
    """Call `fn`, and print `msg` and the time with `printfn`."""
    begin = time.time()
    result = fn()
    (printfn or get_print_fn())(f"{msg}{1000.0 * (time.time() - begin):.3f}ms")
    return result


class TimedScope:
    """Context manager that prints `msg` and its time, unless `set_error` is called."""

    def __init__(self, msg: str = "", printfn: Callable[..., object] | None = eprint) -> None:
        self._message, self._print = msg, printfn or get_print_fn()
        self._error: object = None

    def __enter__(self) -> TimedScope:
        self._start = time.time()
        return self

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._error is None:
            self._print(f"{self._message}{1000.0 * (time.time() - self._start):.3f}ms")

    def set_error(self, error: object) -> None:
        """Suppress the output at the end."""
        self._error = error


def get_free_tcp_ports(n: int = 1) -> list[int]:
    """Return `n` ports that are currently free."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(contextlib.closing(socket.socket())) for _ in range(n)]
        for each in sockets:
            each.bind(("", 0))
        return [each.getsockname()[1] for each in sockets]


def parallel_work(num_workers: int, fn: Callable[..., T], *args: Iterable[object]) -> list[T]:
    """Return ``list(map(fn, *args))``, computed on threads.

    Args:
        num_workers: Number of threads.
        fn: The function.
        *args: Iterables of its arguments.

    Raises:
        Exception: The first one that a call raised.
    """
    with futures.ThreadPoolExecutor(max_workers=num_workers) as executor:
        return list(executor.map(fn, *args))
