"""Campaign: results and gradients of every op of PyTorch's ``op_db`` have the strides that they
have on the CPU.

A case is an op, one of its sample inputs, and a memory layout that all of the sample's tensors get.
"""

from __future__ import annotations

import functools
import math
import sys
import warnings
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from strangers import campaign


def permuted(x: Tensor) -> Tensor:
    """Dimensions in reverse order in memory."""
    order = tuple(range(x.dim()))[::-1]
    return x.permute(order).contiguous().permute(order)


def transposed(x: Tensor) -> Tensor:
    """The last two dimensions swapped in memory."""
    return x.mT.contiguous().mT if x.dim() > 1 else x


def channels_last(x: Tensor) -> Tensor:
    """Channels innermost, for batches of images and volumes."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return x.contiguous(memory_format=formats.get(x.dim(), torch.contiguous_format))


def expanded(x: Tensor) -> Tensor:
    """The first dimension repeats one slice."""
    return x[:1].expand(x.shape) if x.dim() and len(x) else x


def sliced(x: Tensor) -> Tensor:
    """A window into something larger."""
    if not x.dim():
        return x
    room = x.new_zeros([size + 2 for size in x.shape])
    window = room[tuple(slice(1, -1) for _ in x.shape)]
    return window.copy_(x)


def stepped(x: Tensor) -> Tensor:
    """Every other element of the last dimension."""
    if not x.dim():
        return x
    window = x.new_zeros([*x.shape[:-1], 2 * x.shape[-1]])[..., ::2]
    return window.copy_(x)


def contiguous(x: Tensor) -> Tensor:
    """Row-major."""
    return x.contiguous()


LAYOUTS: tuple[Callable[[Tensor], Tensor], ...] = (
    contiguous, permuted, transposed, channels_last, expanded, sliced, stepped,
)  # fmt: skip
NOT_COMPARED = {
    "as_strided_partial_views": "its samples are views of a storage that is larger than the tensor, which another device does not get",
    "tensor_split": "where to split is taken from a tensor on the CPU alone",
    "nn_functional_pixel_unshuffle": "of nothing, the CPU's kernel keeps strides that no rule gives",
    "nn_functional_rrelu": "in training, the CPU forgets the layout of its input, which the noise has on the device",
    "nn_functional_scaled_dot_product_attention": "the CPU's fused kernel has a layout of its own for gradients",
}
"""Ops that are left out, each with the reason."""

_STATISTICS = "the device refuses to write expanded statistics, and the CPU's threads update one element for several channels"
NOT_EXPANDED = {
    "native_batch_norm": _STATISTICS,
    "_native_batch_norm_legit": _STATISTICS,
    "_batch_norm_with_update": _STATISTICS,
    "nn_functional_batch_norm": _STATISTICS,
    "nn_functional_instance_norm": _STATISTICS,
    "linalg_lu_factor": "of equal rows, a pivot is zero or nearly zero, as rounding has it",
}
"""Ops that are not compared with expanded inputs, each with the reason."""


def geometry(x: Tensor) -> tuple[Any, ...]:
    """What a program can see of a tensor's layout."""
    flat = x.numel() == 0 or x.is_contiguous()
    return tuple(x.shape), x.stride(), flat


def strided(value: object) -> list[Tensor]:
    """The dense tensors in a result."""
    return [
        leaf
        for leaf in pytree.tree_leaves(value)
        if isinstance(leaf, Tensor) and leaf.layout == torch.strided and not leaf.is_nested
    ]


def geometries(
    op: OpInfo, sample: SampleInput, layout: Callable[[Tensor], Tensor], device: str, backward: bool
) -> list[tuple[Any, ...]] | None:
    """Geometries of results and gradients; None if the device refuses the call."""
    leaves: list[Tensor] = []

    def place(x: object) -> object:
        if isinstance(x, torch.device):
            return torch.device(device)
        if isinstance(x, str) and x == "cpu":
            return device
        if not isinstance(x, Tensor) or x.layout != torch.strided:
            return x
        on = layout(x.detach().to(device))
        if backward and on.is_floating_point() and x.requires_grad:
            leaves.append(on.requires_grad_())
        return on

    args, kwargs = pytree.tree_map(place, ([sample.input, *sample.args], dict(sample.kwargs)))
    torch.manual_seed(0)
    try:
        results = strided(op.op(*args, **kwargs))
    except Exception:
        return None
    found = [geometry(x) for x in results]
    heads = [x for x in results if x.requires_grad]
    if heads and leaves:
        try:
            gradients = torch.autograd.grad(
                heads, leaves, [torch.ones_like(x) for x in heads], allow_unused=True
            )
        except Exception:
            return found
        found += [
            geometry(x) if x is not None and x.layout == torch.strided else () for x in gradients
        ]
    return found


def is_uniform(sample: SampleInput) -> bool:
    """Whether all tensors of a sample have elements and one shape. (Kernels trust sizes that belong
    together.)"""
    tensors = [
        x
        for x in pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
        if isinstance(x, Tensor)
    ]
    return isinstance(sample.input, Tensor) and all(
        x.layout == torch.strided and x.numel() and x.shape == sample.input.shape for x in tensors
    )


def reshaped(sample: SampleInput, shape: tuple[int, ...]) -> SampleInput:
    """The sample with its tensors in another shape, of the same elements again and again."""
    count = math.prod(shape)

    def change(x: object) -> object:
        if not isinstance(x, Tensor):
            return x
        elements = x.detach().flatten()
        return (
            elements.repeat(-(-count // elements.numel()))[:count]
            .view(shape)
            .requires_grad_(x.requires_grad)
        )

    changed = pytree.tree_map(change, (sample.input, tuple(sample.args), dict(sample.kwargs)))
    return SampleInput(changed[0], args=changed[1], kwargs=changed[2])


@functools.cache
def samples(number: int) -> list[SampleInput]:
    """The first sample inputs of an op of `ops`, and some of them with three and four
    dimensions."""
    op, dtype = ops()[number]
    torch.manual_seed(0)
    own = list(
        islice(
            op.sample_inputs(
                "cpu", dtype, requires_grad=dtype.is_floating_point and op.supports_autograd
            ),
            24,
        )
    )
    uniform = [sample for sample in own if is_uniform(sample)]
    return own + [
        reshaped(sample, shape) for shape in ((3, 4, 5), (2, 3, 4, 5)) for sample in uniform[:8]
    ]


@functools.cache
def ops() -> list[tuple[OpInfo, torch.dtype]]:
    """Each op with a dtype that it takes."""
    wanted = (torch.float32, torch.int64, torch.bool, torch.complex64)
    return [
        (op, next(d for d in wanted if d in op.dtypes))
        for op in op_db
        if op.formatted_name not in NOT_COMPARED and any(d in op.dtypes for d in wanted)
    ]


def compare(number: int, sample: SampleInput, layout: Callable[[Tensor], Tensor]) -> str | None:
    """What differs for one sample of an op in one layout; None if nothing does, or if the CPU
    refuses the call."""
    op, _ = ops()[number]
    if layout is expanded and op.formatted_name in NOT_EXPANDED:
        return None
    backward = op.supports_autograd
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = geometries(op, sample, layout, "cpu", backward)
        if expected is None:
            return None
        found = geometries(op, sample, layout, "ftm", backward)
    call = f"{op.formatted_name} of {layout.__name__} {sample.summary()}"
    if found is None:
        return f"{call}: refused"
    found = found[: len(expected)]  # a gradient that the CPU refuses has no strides to compare
    if found != expected:
        return f"{call}: {found}, the CPU has {expected}"
    return None


def check(random: Random) -> str | None:
    """One op, one sample, one layout."""
    number = random.randrange(len(ops()))
    if not samples(number):
        return None
    return compare(number, random.choice(samples(number)), random.choice(LAYOUTS))


if __name__ == "__main__":
    campaign.main("strides", check, count=4000)
