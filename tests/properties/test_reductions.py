"""Reductions and scans over any dimensions, with and without them kept; products of matrices."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from properties.cases import ALL, FLOATS, INTS, Call, broadcast, extents, holds, operands, shapes

OVER_DIMS = [
    "sum", "mean", "amax", "amin", "logsumexp", "var", "std", "nansum", "count_nonzero", "all",
    "any",
]  # fmt: skip
OVER_ONE = [
    "argmax", "argmin", "prod", "cumsum", "max", "min", "all", "any", "softmax", "cumprod", "sort",
    "median", "cummax", "diff", "logcumsumexp",
]  # fmt: skip
FLOATING = {"mean", "logsumexp", "var", "std", "softmax", "logcumsumexp"}
WITHOUT_KEEPDIM = {
    "cumsum", "softmax", "cumprod", "sort", "cummax", "diff", "count_nonzero", "logcumsumexp",
}  # fmt: skip


@st.composite
def over_dims(draw: Any) -> Call:
    name, shape = draw(st.sampled_from(OVER_DIMS)), draw(shapes(1))
    x = draw(operands(shape, FLOATS if name in FLOATING else ALL))
    dims = draw(
        st.lists(
            st.integers(-len(shape), len(shape) - 1),
            min_size=1,
            max_size=len(shape),
            unique_by=lambda d: d % len(shape),
        )
    )
    kwargs = {} if name in WITHOUT_KEEPDIM else {"keepdim": draw(st.booleans())}
    return Call(
        f"{name} {dims} {kwargs}",
        lambda x: getattr(torch, name)(x, dim=tuple(dims), **kwargs),
        (x,),
        scale=5,
    )


@holds(over_dims())
def test_over_dimensions() -> None:
    """Several dimensions at once."""


@st.composite
def over_one(draw: Any) -> Call:
    name, shape = draw(st.sampled_from(OVER_ONE)), draw(shapes(0))
    x = draw(operands(shape, FLOATS if name in FLOATING else ALL))
    dim = draw(st.integers(-len(shape), len(shape) - 1)) if shape else 0
    kwargs = {} if name in WITHOUT_KEEPDIM else {"keepdim": draw(st.booleans())}
    kwargs |= {"stable": True} if name == "sort" else {}
    if name == "median":
        return Call(f"{name} {dim}", lambda x: torch.median(x, dim).values, (x,))
    return Call(
        f"{name} {dim} {kwargs}",
        lambda x: getattr(torch, name)(x, dim=dim, **kwargs),
        (x,),
        scale=20,
    )


@holds(over_one())
def test_over_one_dimension() -> None:
    """Extremes with their places, products, scans, sorts."""


@st.composite
def products(draw: Any) -> Call:
    m, k, n = (draw(extents()) for _ in range(3))
    dtype = [draw(st.sampled_from(FLOATS + [torch.int64, torch.int32]))]
    batch = draw(shapes(0, 2))
    kind = draw(
        st.sampled_from(
            [
                "mm", "matmul", "vector", "matrix vector", "bmm", "addmm", "linear", "einsum",
                "outer", "baddbmm",
            ]
        )
    )  # fmt: skip
    special = lambda o: type(o)(o.shape, o.dtype, o.layout, o.seed, False)
    pick = lambda *shape: special(draw(operands(shape, dtype)))
    calls = {
        "mm": lambda: (torch.mm, pick(m, k), pick(k, n)),
        "matmul": lambda: (torch.matmul, pick(*batch, m, k), pick(*draw(broadcast(batch)), k, n)),
        "vector": lambda: (torch.matmul, pick(k), pick(k)),
        "matrix vector": lambda: (torch.matmul, pick(*batch, m, k), pick(k)),
        "bmm": lambda: (torch.bmm, pick(3, m, k), pick(3, k, n)),
        "addmm": lambda: (
            lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=3),
            pick(*draw(broadcast((m, n)))),
            pick(m, k),
            pick(k, n),
        ),
        "baddbmm": lambda: (
            torch.baddbmm,
            pick(*draw(broadcast((2, m, n)))),
            pick(2, m, k),
            pick(2, k, n),
        ),
        "linear": lambda: (torch.nn.functional.linear, pick(*batch, k), pick(n, k), pick(n)),
        "einsum": lambda: (
            lambda a, b: torch.einsum("bik,kj->bji", a, b),
            pick(2, m, k),
            pick(k, n),
        ),
        "outer": lambda: (torch.outer, pick(m), pick(n)),
    }
    function, *inputs = calls[kind]()
    return Call(kind, function, tuple(inputs), scale=10)


@holds(products())
def test_products() -> None:
    """Products of matrices and vectors, with batches that broadcast and operands that lie
    anyhow."""


@st.composite
def moving(draw: Any) -> Call:
    """cat, stack, split and their kin: dtypes promote, empty parts count."""
    shape = draw(shapes(1, 3))
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    kind = draw(
        st.sampled_from(
            [
                "cat", "stack", "split", "chunk", "unbind", "tensor_split", "repeat", "roll",
                "flip", "tile", "repeat_interleave",
            ]
        )
    )  # fmt: skip
    if kind in ("cat", "stack"):
        count = draw(st.integers(1, 4))
        parts = []
        for _ in range(count):
            own = list(shape)
            if kind == "cat":
                own[dim] = draw(extents(0, 3))
            parts.append(draw(operands(tuple(own), ALL)))
        return Call(f"{kind} {dim}", lambda *parts: getattr(torch, kind)(parts, dim), tuple(parts))
    x, size = draw(operands(shape, ALL)), draw(st.integers(1, 4))
    calls = {
        "split": lambda x: x.split(size, dim),
        "chunk": lambda x: x.chunk(size, dim),
        "unbind": lambda x: x.unbind(dim),
        "tensor_split": lambda x: x.tensor_split([size], dim),
        "repeat": lambda x: x.repeat(*[size] + [1] * x.dim()),
        "roll": lambda x: x.roll(size, dim),
        "flip": lambda x: x.flip(dim),
        "tile": lambda x: x.tile(size, 2),
        "repeat_interleave": lambda x: x.repeat_interleave(size, dim),
    }
    return Call(f"{kind} {size} {dim}", calls[kind], (x,))


@holds(moving())
def test_joining_and_splitting() -> None:
    """What takes tensors apart and puts them together."""


def test_dtype_arguments() -> None:
    """Sums in a dtype that is asked for."""
    for dtype in FLOATS + INTS:
        x: Tensor = torch.arange(6, dtype=dtype).reshape(2, 3)
        for ask in (torch.float64, torch.int64, torch.float32):
            got = x.to("ftm").sum(1, dtype=ask)
            assert got.dtype == ask
            assert got.tolist() == x.sum(1, dtype=ask).tolist()
