"""Calls to test views, layouts and creation with; see samples.py."""

from __future__ import annotations

from typing import Any

import torch

from ops.samples import Calls, Source, name_of, sampler


@sampler("view", "split", "as_strided")
def view(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    x = source.tensor((2, 3, 4), dtype)
    table: dict[str, list[tuple[Any, ...]]] = {
        "view": [(x, [6, 4]), (x, [-1]), (x[:0], [0, 12])],
        "_unsafe_view": [(x, [6, 4])],
        "reshape": [(x.transpose(0, 1), [3, 8])],
        "_reshape_alias": [(x, [6, 4], [4, 1])],
        "view_copy": [(x, [6, 4])],
        "unsqueeze": [(x, 0), (x, -1), (source.tensor((), dtype), 0)],
        "squeeze": [(source.tensor((1, 3, 1), dtype),), (x,)],
        "squeeze.dim": [(source.tensor((1, 3), dtype), 0), (x, 0)],
        "squeeze.dims": [(source.tensor((1, 3, 1), dtype), [0, 2])],
        "flatten.using_ints": [(x, 1, 2)],
        "unflatten.int": [(x, 2, [2, 2])],
        "expand": [(source.tensor((3, 1), dtype), [2, 3, 4]), (x, [-1, 3, 4])],
        "broadcast_to": [(source.tensor((3, 1), dtype), [2, 3, 4])],
        "expand_copy": [(source.tensor((3, 1), dtype), [2, 3, 4])],
        "transpose.int": [(x, 0, -1), (x, 1, 1)],
        "swapaxes": [(x, 0, 1)],
        "t": [(x[0],), (x[0, 0],)],
        "t_copy": [(x[0],)],
        "permute": [(x, [2, 0, 1])],
        "permute_copy": [(x, [2, 0, -2])],
        "slice.Tensor": [(x, 1, 1, 3), (x, 2, None, None, 2), (x, -1, -3, 100, 1), (x, 0, 5, 9)],
        "slice_copy.Tensor": [(x, 1, 1, 3)],
        "narrow": [(x, 1, 1, 2), (x, 2, 0, 0)],
        "select.int": [(x, 1, -1), (x, 0, 1)],
        "select_copy.int": [(x, 1, -1)],
        "diagonal": [(x, 0, 1, 2), (x, 1, 0, 2), (x, -1, 1, 2)],
        "diagonal_copy": [(x, 0, 1, 2)],
        "unfold": [(x, 2, 2, 1), (x, 1, 3, 1), (x, 2, 3, 2)],
        "split.Tensor": [(x, 2, 2), (x, 3, 2)],
        "split_with_sizes": [(x, [1, 3], 2)],
        "chunk": [(x, 2, 1)],
        "unbind.int": [(x, 1)],
        "as_strided": [(x, [2, 2, 3], [3, 1, 2], 1), (x, [4], [0]), (x, [3], [5], 2)],
        "as_strided_copy": [(x, [2, 2], [3, 1], 1)],
    }
    for args in table[name_of(op)]:
        yield args, {}


@sampler("cat", "stack")
def cat(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    if name_of(op) == "stack":
        yield ([source.tensor((2, 3), dtype) for _ in range(3)], 1), {}
        yield ([source.tensor((), dtype)], 0), {}
        return
    yield ([source.tensor((2, n), dtype) for n in (3, 1, 0, 4)], 1), {}
    yield (
        (
            [
                source.tensor((2, 3), dtype),
                torch.zeros(0, dtype=dtype),
                source.tensor((1, 3), dtype),
            ],
            0,
        ),
        {},
    )
    yield ([source.tensor((2,), dtype), source.tensor((3,), torch.float32)], -1), {}


@sampler("flip", "roll", "triangle", "pad", "repeat", "slice_scatter")
def layout(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    x = source.tensor((3, 4), dtype)
    table: dict[str, list[tuple[Any, ...]]] = {
        "flip": [
            (x, [0]),
            (x, [0, -1]),
            (x, []),
            (source.tensor((2, 1, 3), dtype).permute(2, 0, 1), [0, 1]),
        ],
        "roll": [
            (x, [1], [0]),
            (x, [-1, 2], [0, 1]),
            (x, [5], []),
            (source.tensor((0, 2), dtype), [1], [0]),
        ],
        "tril": [(x, 0), (x, 1), (x, -2), (source.tensor((2, 3, 3), dtype), 0)],
        "triu": [(x, 0), (x, 1), (x, -2), (source.tensor((2, 3, 3), dtype), 0)],
        "constant_pad_nd": [
            (x, [1, 2], 1),
            (x, [1, 0, 2, 1], 0),
            (x, [-1, 1], 1),
            (source.tensor((0, 2), dtype), [1, 1, 1, 1], 1),
        ],
        "repeat": [(x, [2, 1]), (x, [2, 3, 2]), (x, [0, 1])],
        "slice_scatter": [(x, x[1:2].clone(), 0, 1, 2), (x, x[:, :2].clone(), 1, 1, 4, 2)],
        "select_scatter": [(x, x[0].clone(), 0, -1), (x, x[:, 0].clone(), 1, 2)],
    }
    for args in table[name_of(op)]:
        yield args, {}


@sampler("creation", "fill")
def creation(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    number: Any = True if dtype == torch.bool else 3 if not dtype.is_floating_point else 2.5
    for size in ((), (0, 2), (2, 3)):
        x = source.tensor(size, dtype)
        if name == "zero" or (name.endswith("_like") and not name.startswith("full")):
            yield (x,), {}
        elif name in ("full_like", "fill.Scalar"):
            yield (x, number), {}
        elif name == "fill.Tensor":
            yield (x, source.tensor((), dtype)), {}
        elif name == "full":
            yield (list(size), number), {"dtype": dtype}
        elif name == "new_full":
            yield (x, list(size), number), {}
        elif name in ("new_zeros", "new_ones", "new_empty"):
            yield (x, list(size)), {}
        elif name == "scalar_tensor":
            yield (number,), {"dtype": dtype}
        elif name == "eye":
            yield (4,), {"dtype": dtype}
        elif name == "eye.m":
            yield (3, 5), {"dtype": dtype}
        elif name == "new_empty_strided":
            yield (x, list(size), list(torch.empty(size).stride())), {}
        elif name in ("empty_strided", "empty_permuted"):
            order = (
                list(torch.empty(size).stride())
                if name == "empty_strided"
                else list(range(len(size)))
            )
            yield (list(size), order), {"dtype": dtype}
        else:
            yield (list(size),), {"dtype": dtype}


@sampler("arange", "linspace")
def ranges(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    table: dict[str, list[tuple[Any, ...]]] = {
        "arange": [(5,), (0,)],
        "arange.start": [(2, 9)],
        "arange.start_step": [(1, 12, 3), (9, 0, -2)],
        "linspace": [(0, 10, 5), (3, 3, 1), (1, 20, 8)],
        "logspace": [(0, 2, 5), (3, 3, 1, 2.0), (0, 6, 8, 2.0)],
    }
    for args in table[name_of(op)]:
        yield args, {"dtype": dtype}
