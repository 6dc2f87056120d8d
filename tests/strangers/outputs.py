"""Campaign: ``out=`` and in-place forms of every op of PyTorch's ``op_db`` take and refuse the
outputs that the CPU does.

A case is an op, one of its sample inputs, and a kind of output. Compared are: whether the call is
refused and by which exception, what the output holds, its geometry, and the warnings.
"""

from __future__ import annotations

import functools
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

torch.set_warn_always(True)  # a warning once in a process is one for the first device alone


def exact(x: Tensor) -> Tensor:
    """As the result is."""
    return torch.zeros_like(x, memory_format=torch.contiguous_format)


def empty(x: Tensor) -> Tensor:
    """Without elements: the call resizes it."""
    return x.new_zeros(0)


def larger(x: Tensor) -> Tensor:
    """Of another shape: the call resizes it and warns."""
    return x.new_zeros([*x.shape, 2])


def room_for(x: Tensor) -> Tensor:
    """Elements enough for kernels of the CPU that write row-major whatever the strides are."""
    return x.new_zeros(x.numel() + sum(x.shape) + 1)


def expanded(x: Tensor) -> Tensor:
    """All elements in one place."""
    return room_for(x)[0].expand(x.shape)


def overlapping(x: Tensor) -> Tensor:
    """Rows that share elements."""
    if x.dim() == 0:
        return exact(x)
    return room_for(x).as_strided(x.shape, [1] * x.dim())


def transposed(x: Tensor) -> Tensor:
    """Dimensions in reverse order in memory."""
    return x.new_zeros(tuple(x.shape)[::-1]).permute(tuple(range(x.dim()))[::-1])


def window(x: Tensor) -> Tensor:
    """A part of something larger."""
    return (
        x.new_zeros([size + 2 for size in x.shape])[tuple(slice(1, -1) for _ in x.shape)]
        if x.dim()
        else exact(x)
    )


def resized_view(x: Tensor) -> Tensor:
    """A view that the call has to resize."""
    return x.new_zeros(x.numel() + 4)[2:3]


def other_dtype(x: Tensor) -> Tensor:
    """Of a dtype that the result cannot be cast to, or can."""
    return torch.zeros_like(x, dtype=torch.int32 if x.is_floating_point() else torch.float64)


OUTPUTS: tuple[Callable[[Tensor], Tensor], ...] = (
    exact, empty, larger, expanded, overlapping, transposed, window, resized_view, other_dtype,
)  # fmt: skip
"""What a result is written to."""

INPUTS = ("the first input", "the middle of the first input")
"""The same, of what the call reads."""

RANDOM = {
    "bernoulli", "cauchy", "nn.functional.rrelu", "exponential", "geometric", "log_normal", "multinomial", "normal", "normal_in_place", "uniform", "randint", "randn",
}  # fmt: skip
"""Ops whose elements are not compared."""

NOT_COMPARED = {
    "addbmm": "resizes what it writes in place",
    "as_strided_partial_views": "its samples are views of a storage that another device does not get",
    "cholesky_inverse": "of nothing, the CPU's kernel makes strides that no rule gives",
    "empty": "its elements are what was in memory",
    "nn_functional_gelu": "the CPU's kernel does not write to an output that is not contiguous",
    "sparse_sampled_addmm": "runs on the CPU alone",
    "eye": "of nothing, and not warned of on the CPU",
    "linalg_eigvals": "of nothing, the CPU's kernel makes other strides",
    "linalg_ldl_solve": "runs on the CPU, which gets copies that do not overlap",
    "matmul": "as mv",
    "mv": "eager writes to an expanded output",
    "nn_functional_avg_pool3d": "the CPU's kernel writes row-major to an output that is not",
    "nn_functional_logsigmoid": "eager resizes its output without a warning",
    "conj_physical": "real tensors with out= are not compiled",
    "tensor_split": "where to split is taken from a tensor on the CPU alone",
}
"""Ops that are left out, each with the reason."""


def placed(sample: SampleInput, device: str) -> tuple[list[Any], dict[str, Any]]:
    """The sample's arguments on a device."""

    def place(x: object) -> object:
        if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu"):
            return torch.device(device)
        return (
            x.detach().clone().to(device)
            if isinstance(x, Tensor) and x.layout == torch.strided
            else x
        )

    return pytree.tree_map(place, ([sample.input, *sample.args], dict(sample.kwargs)))


Outcome = tuple[Any, ...]


def outcome(call: Callable[[], Tensor]) -> Outcome:
    """What a call does, for the comparison."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except Exception as error:
            # A trace of where the device ran it follows the message.
            return type(error).__name__, ()
        values = result.detach().cpu()
    said = tuple(
        sorted({str(w.message)[:60] for w in caught if " device ftm" not in str(w.message)})
    )
    return "done", said, tuple(result.shape), result.stride(), result.dtype, values


def differs(found: Outcome, expected: Outcome, with_elements: bool) -> bool:
    """Whether the device did another thing than the CPU."""
    if found[:5] != expected[:5]:
        return True
    if expected[0] != "done" or not with_elements:
        return False
    try:
        torch.testing.assert_close(found[5], expected[5], equal_nan=True, rtol=1e-3, atol=1e-4)
    except AssertionError:
        return True
    return False


def write_out(
    op: OpInfo, sample: SampleInput, device: str, kind: Callable[[Tensor], Tensor] | str
) -> Outcome | None:
    """Calls the op with ``out=``; None where the sample has no such form."""
    args, kwargs = placed(sample, device)
    result = op.op(*args, **kwargs)
    if not isinstance(result, Tensor):
        return None
    if isinstance(kind, str):
        first = next((x for x in args if isinstance(x, Tensor)), None)
        if first is None or first.shape != result.shape or not first.dim():
            return None  # it would be resized, and the CPU read what is no longer there
        if kind == INPUTS[1]:
            room = first.new_zeros(len(first) + 1, *first.shape[1:])
            args = [room[:-1].copy_(first) if x is first else x for x in args]
            first = room[1:]
        out = first
    else:
        out = kind(result)
    return outcome(lambda: op.op(*args, **kwargs, out=out))


def write_in_place(
    op: OpInfo, sample: SampleInput, device: str, kind: Callable[[Tensor], Tensor] | str
) -> Outcome | None:
    """Calls the op's in-place form on a tensor of this kind that holds the sample's first
    elements."""
    if op.inplace_variant is None or isinstance(kind, str):
        return None
    args, kwargs = placed(sample, device)
    if not isinstance(args[0], Tensor):
        return None
    written = kind(args[0])
    if written.shape != args[0].shape:
        return None
    written = written if kind in (expanded, overlapping) else written.copy_(args[0])
    return outcome(lambda: op.inplace_variant(written, *args[1:], **kwargs))


@functools.cache
def ops() -> list[OpInfo]:
    """The ops that write to what they are given."""
    return [
        op
        for op in op_db
        if (op.supports_out or op.inplace_variant is not None)
        and op.formatted_name not in NOT_COMPARED
        and (torch.float32 in op.dtypes or torch.int64 in op.dtypes)
    ]


@functools.cache
def samples(number: int) -> list[SampleInput]:
    """The first sample inputs of an op of `ops`."""
    op = ops()[number]
    torch.manual_seed(0)
    return list(
        islice(
            op.sample_inputs("cpu", torch.float32 if torch.float32 in op.dtypes else torch.int64), 6
        )
    )


def compare(
    number: int, sample: SampleInput, kind: Callable[[Tensor], Tensor] | str, in_place: bool
) -> str | None:
    """What differs for one sample; None if nothing does."""
    op = ops()[number]
    write = write_in_place if in_place else write_out
    if not in_place and not op.supports_out:
        return None
    try:
        expected = write(op, sample, "cpu", kind)
    except Exception:
        return None  # the plain call is refused, or such an output cannot be made
    if expected is None:
        return None
    found = write(op, sample, "ftm", kind)
    # Elements that share a place have the one that was written last.
    with_elements = (
        op.name not in RANDOM
        and "dropout" not in op.name
        and kind not in (expanded, overlapping, *INPUTS)
    )
    if found is None or differs(found, expected, with_elements):
        name = kind if isinstance(kind, str) else kind.__name__
        form = "in place" if in_place else "out="
        return f"{op.formatted_name} {form} {name} of {sample.summary()}: {found}, the CPU has {expected}"
    return None


def check(random: Random) -> str | None:
    """One op, one sample, one kind of output."""
    number = random.randrange(len(ops()))
    taken = samples(number)
    if not taken:
        return None
    return compare(
        number, random.choice(taken), random.choice((*OUTPUTS, *INPUTS)), random.random() < 0.4
    )


if __name__ == "__main__":
    campaign.main("outputs", check, count=4000)
