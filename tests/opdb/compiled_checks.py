"""What is run for an entry of op_db under ``torch.compile(backend="ftm", fullgraph=True)``: each sample is a graph of its
own, whose results and gradients must agree with eager PyTorch's on the CPU.

A sample that Dynamo or AOTAutograd cannot take as one graph for any backend is left out; `aot_eager`, which compiles
nothing, is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch.testing._internal import common_methods_invocations

from ftm_lazy import TorchCompileBackend
from opdb import op_checks
from opdb.engine import Case, Leaf, Refused
from opdb.place import CPU, FTM, Place

__all__ = ["CHECKS", "SOME", "applies", "cases", "dtypes"]

CHECKS = ("forward", "backward")

SOME = 6
"""Samples of an entry, evenly chosen: each is traced by Dynamo and AOTAutograd, a second or so where a lazy one is
milliseconds."""

_Tree = tuple[Any, tuple[Any, ...], dict[str, Any]]


def dtypes(op: Any) -> list[torch.dtype]:
    """The primary dtype alone."""
    first = op_checks.primary(op)
    return [] if first is None or op.name.startswith("jiterator") else [first]


def applies(op: Any, dtype: torch.dtype, check: str) -> bool:
    """Whether the entry has the check."""
    return op_checks.applies(op, dtype, check)


def cases(op: Any, dtype: torch.dtype, check: str) -> Iterator[Case]:
    """The cases of one check."""
    for label, sample in op_checks.samples(op, dtype, grad=check == "backward", limit=SOME):

        def run(place: Place, sample: Any = sample) -> list[Leaf]:
            if check == "backward" and op_checks.has_ties(op, sample):
                raise Refused("equal values")
            arguments = op_checks.put(place, op, sample)
            if place != FTM:
                return _found(op, check, place, sample, arguments, op.get_op())
            try:
                return _found(op, check, place, sample, arguments, _compiled(op, TorchCompileBackend()))
            except Exception:
                if not _is_taken(op, check, sample):
                    raise Refused("no backend is given it as one graph") from None
                raise

        yield Case(label, run)


def _found(op: Any, check: str, place: Place, sample: Any, arguments: _Tree, call: Callable[..., Any]) -> list[Leaf]:
    """Results, or gradients, of one sample."""
    input, args, kwargs = arguments
    with op_checks.devices(place, arguments):
        if check == "forward":
            result = sample.output_process_fn_grad(call(input, *args, **kwargs))
            return op_checks.leaves("result", op_checks.settled(op, result, arguments))
        result = op.gradcheck_wrapper(call, input, *args, **kwargs)
        return op_checks.gradients(place, sample.output_process_fn_grad(result), arguments)


def _compiled(op: Any, backend: Any) -> Callable[..., Any]:
    """The entry under `torch.compile`, as if it were the first.

    Shapes that depend on values are part of a graph; to seed the generator is not, so that entries don't.
    """
    torch._dynamo.reset()
    call = torch.compile(op.get_op(), backend=backend, fullgraph=True)

    def within(*args: Any, **kwargs: Any) -> Any:
        graphs = mock.patch.multiple(torch._dynamo.config, capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
        with graphs, mock.patch.object(common_methods_invocations, "wrapper_set_seed", _unseeded):
            return call(*args, **kwargs)

    return within


def _unseeded(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return op(*args, **kwargs)


def _is_taken(op: Any, check: str, sample: Any) -> bool:
    try:
        _found(op, check, CPU, sample, op_checks.put(CPU, op, sample), _compiled(op, "aot_eager"))
    except Refused:
        raise
    except Exception:
        return False
    return True
