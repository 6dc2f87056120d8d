"""Views of views, writes through them, and indexing by numbers, slices, tensors and masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from properties.cases import ALL, FLOATS, INTS, WRITABLE, Call, holds, operands, shapes

Step = tuple[str, Callable[[Tensor], Tensor]]


@st.composite
def view_step(draw: Any) -> Step:
    """Draw one view of any tensor; a view that does not fit does nothing."""
    kind = draw(
        st.sampled_from(
            [
                "slice", "select", "permute", "unsqueeze", "squeeze", "narrow", "diagonal", "view",
                "unfold", "movedim", "flatten", "expand", "as_strided",
            ]
        )
    )  # fmt: skip
    a, b, c = (draw(st.integers(0, 5)) for _ in range(3))

    def apply(x: Tensor) -> Tensor:
        d = a % max(x.dim(), 1)
        if kind == "unsqueeze" and x.dim() < 5:
            return x.unsqueeze(a % (x.dim() + 1))
        if not x.dim() or not x.numel():
            return x
        if kind == "slice":
            return x[(slice(None),) * d + (slice(b % x.shape[d], None, 1 + c % 3),)]
        if kind == "select" and x.dim() > 1:
            return x.select(d, b % x.shape[d])
        if kind == "permute":
            return x.permute(*sorted(range(x.dim()), key=lambda k: (k * 7 + a) % x.dim()))
        if kind == "squeeze":
            return x.squeeze()
        if kind == "narrow":
            return x.narrow(d, b % x.shape[d], 1)
        if kind == "diagonal" and x.dim() > 1:
            return x.diagonal(b % 2, 0, 1)
        if kind == "view" and x.is_contiguous():
            return x.view(-1)
        if kind == "unfold" and x.shape[d] >= 2:
            return x.unfold(d, 2, 2)
        if kind == "movedim":
            return x.movedim(0, -1)
        if kind == "flatten" and x.is_contiguous():
            return x.flatten()
        if kind == "expand" and x.shape[0] == 1:
            return x.expand(3, *x.shape[1:])
        if kind == "as_strided" and x.is_contiguous() and x.numel() >= 4:
            return x.as_strided((2, 2), (1, 2), x.storage_offset())
        return x

    return f"{kind}({a},{b},{c})", apply


@st.composite
def views(draw: Any) -> Call:
    """A chain of views, then a read, or a write and a read of everything beneath."""
    steps = draw(st.lists(view_step(), min_size=1, max_size=5))
    write = draw(st.sampled_from(["none", "mul_", "fill_", "copy_", "add_", "zero_", "twice"]))
    x = draw(operands(draw(shapes(1)), ALL, WRITABLE))

    def run(x: Tensor) -> tuple[Tensor, ...]:
        seen = [x]
        for _, step in steps:
            seen.append(step(seen[-1]))
        last = seen[-1]
        if write == "mul_":
            last.mul_(3)
        elif write == "fill_":
            last.fill_(2)
        elif write == "copy_":
            last.copy_(torch.ones((), device=x.device))
        elif write == "add_":
            last.add_(last.clone())
        elif write == "zero_":
            last.zero_()
        elif write == "twice":
            seen[len(seen) // 2].mul_(2)
            last.add_(1)
        return tuple(s + 0 if s.dtype != torch.bool else s.clone() for s in seen)

    return Call(" ".join(name for name, _ in steps) + f" {write}", run, (x,))


@holds(views())
def test_views() -> None:
    """Views of views alias what they were taken from."""


def slices() -> st.SearchStrategy[Any]:
    numbers = st.integers(-4, 4)
    part = st.builds(
        slice,
        st.one_of(st.none(), numbers),
        st.one_of(st.none(), numbers),
        st.sampled_from([None, 1, 2, 3]),
    )
    return st.one_of(numbers, part, st.just(...), st.none(), part)


@st.composite
def subscripts(draw: Any) -> Call:
    x = draw(operands(draw(shapes(1)), ALL, WRITABLE))
    index = tuple(draw(st.lists(slices(), min_size=1, max_size=3)))
    index = tuple(i for k, i in enumerate(index) if i is not ... or ... not in index[:k])
    write = draw(st.booleans())

    def run(x: Tensor) -> Tensor:
        if write:
            x[index] = 1
            return x
        return x[index]

    return Call(f"{index} {'write' if write else ''}", run, (x,))


@holds(subscripts())
def test_subscripts() -> None:
    """Numbers, slices, None and ..., read and written."""


@st.composite
def by_tensors(draw: Any) -> Call:
    shape = draw(shapes(1, 3, low=1))
    x = draw(operands(shape, ALL, WRITABLE))
    dim, seed = draw(st.integers(0, len(shape) - 1)), draw(st.integers(0, 99))
    kind = draw(st.sampled_from(["index", "index2", "mask write", "write", "accumulate", "gather", "scatter", "scatter_add", "index_select",
                                 "index_add", "take", "masked_fill", "put", "index_copy", "index_fill", "take_along_dim", "scatter_reduce"]))  # fmt: skip

    def run(x: Tensor) -> Tensor:
        generator, n = torch.Generator().manual_seed(seed), x.shape[dim]
        place = torch.randint(0, n, (4,), generator=generator).to(x.device)
        along = torch.randint(0, n, x.shape, generator=generator).to(x.device)
        mask = torch.randint(0, 2, x.shape, generator=generator).bool().to(x.device)
        index = (slice(None),) * dim + (place,)
        rows = x.index_select(dim, place)
        calls: dict[str, Callable[[], Any]] = {
            "index": lambda: x[index],
            "index2": lambda: x[
                (place % x.shape[0], *([place % x.shape[1]] if x.dim() > 1 else []))
            ],
            "mask write": lambda: x.__setitem__(mask, 1),
            "write": lambda: x.__setitem__((slice(None),) * dim + (place[:1],), 1),
            "accumulate": lambda: x.index_put_(
                (place % x.shape[0],), x[:1].expand(4, *x.shape[1:]).clone(), accumulate=True
            ),
            "gather": lambda: x.gather(dim, along),
            "scatter": lambda: x.scatter(
                dim, along[:1] if dim else along[:, :0] if x.dim() > 1 else along[:1], 1
            ),
            "scatter_add": lambda: x.scatter_add(dim, along, x.clone()),
            "scatter_reduce": lambda: x.scatter_reduce(
                dim, along, x.clone(), "amax", include_self=bool(seed % 2)
            ),
            "index_select": lambda: rows,
            "index_add": lambda: x.index_add(dim, place, rows),
            "take": lambda: x.take(along),
            "take_along_dim": lambda: x.take_along_dim(along, dim),
            "masked_fill": lambda: x.masked_fill(mask, 1),
            "put": lambda: (
                x.put(place, rows.reshape(-1)[:4])
                if rows.numel() >= 4 and len(set(place.tolist())) == 4
                else x
            ),
            "index_copy": lambda: x.index_copy(dim, place[:1], rows.narrow(dim, 0, 1)),
            "index_fill": lambda: x.index_fill(dim, place, 1),
        }
        result = calls[kind]()
        return x if result is None else result

    scale = 4.0 if x.dtype in FLOATS else 1.0
    return Call(
        f"{kind} {dim} {seed}", run, (type(x)(x.shape, x.dtype, x.layout, x.seed, False),), scale
    )


@holds(by_tensors())
def test_by_tensors() -> None:
    """Indices and masks: gathered, scattered, written and added up."""


def test_negative_and_outside() -> None:
    """Negative places count from the end; places outside are refused as eager refuses them."""
    for dtype in (torch.float32, INTS[0]):
        x = torch.arange(12, dtype=dtype).reshape(3, 4)
        assert x.to("ftm")[torch.tensor([-1, 0])].tolist() == x[torch.tensor([-1, 0])].tolist()
        for device in ("cpu", "ftm"):
            try:
                x.to(device)[torch.tensor([3]).to(device)].tolist()
            except (IndexError, RuntimeError):
                continue
            raise AssertionError(f"{device} takes an index outside")
