"""The cases of an op_db entry under ``torch.compile(backend="ftm", fullgraph=True)``.

Each sample is a separate graph, whose results and gradients must agree with eager PyTorch on the
CPU. Samples that Dynamo or AOTAutograd cannot capture as one graph for any backend are skipped. Two
backends determine that: `aot_eager`, which compiles nothing, on the CPU, and one that accepts
anything with tensors of the device `meta`. Entries without remaining samples (`known.NOT_COMPILED`)
run without ``fullgraph``, in as many graphs as Dynamo makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch.testing._internal import common_methods_invocations

from ftm_lazy import TorchCompileBackend
from opdb import known, op_checks
from opdb.engine import Case, Leaf, Refused
from opdb.place import CPU, FTM, Place

__all__ = ["CHECKS", "SOME", "applies", "cases", "dtypes"]

CHECKS = ("forward", "backward", "forward in parts", "backward in parts")

SOME = 6
"""Samples of an entry, evenly chosen: each is traced by Dynamo and AOTAutograd, a second or so
where a lazy one is
milliseconds."""

STATISTICS = ("_native_batch_norm_legit",)
"""Entries whose second and third results are, in inference, of shape [0] on the CPU and of [C] on
any other device, by PyTorch's own decomposition: only the first is compared then."""

_Tree = tuple[Any, tuple[Any, ...], dict[str, Any]]


def dtypes(op: Any) -> list[torch.dtype]:
    """The primary dtype alone."""
    first = op_checks.primary(op)
    return [] if first is None or op.name.startswith("jiterator") else [first]


def applies(op: Any, dtype: torch.dtype, check: str) -> bool:
    """Whether the entry has the check."""
    way, _, parts = check.partition(" ")
    return op_checks.applies(op, dtype, way) and (
        not parts or op.formatted_name in known.NOT_COMPILED
    )


def cases(op: Any, dtype: torch.dtype, check: str) -> Iterator[Case]:
    """The cases of one check."""
    check, _, parts = check.partition(" ")
    for label, sample in op_checks.samples(op, dtype, grad=check == "backward", limit=SOME):

        def run(place: Place, sample: Any = sample) -> list[Leaf]:
            if check == "backward" and op_checks.has_ties(op, sample):
                raise Refused("equal values")
            arguments = op_checks.put(place, op, sample)
            if place != FTM:
                return _found(op, check, place, sample, arguments, op.get_op())
            try:
                return _found(
                    op,
                    check,
                    place,
                    sample,
                    arguments,
                    _compiled(op, TorchCompileBackend(), whole=not parts),
                )
            except Exception:
                if not parts and not (_is_taken(op, check, sample) and _is_given(op, sample)):
                    raise Refused("no backend is given it as one graph") from None
                raise

        yield Case(label, run)


def _found(
    op: Any, check: str, place: Place, sample: Any, arguments: _Tree, call: Callable[..., Any]
) -> list[Leaf]:
    """Results, or gradients, of one sample."""
    input, args, kwargs = arguments
    with op_checks.devices(place, arguments):
        if check == "forward":
            result = sample.output_process_fn_grad(call(input, *args, **kwargs))
            if op.name in STATISTICS and not sample.args[4]:
                result = result[0]
            return op_checks.leaves("result", op_checks.settled(op, result, arguments))
        result = op.gradcheck_wrapper(call, input, *args, **kwargs)
        return op_checks.gradients(place, sample.output_process_fn_grad(result), arguments)


def _compiled(op: Any, backend: Any, whole: bool = True) -> Callable[..., Any]:
    """The entry under `torch.compile`, as if it were the first; ``whole``: as one graph.

    Shapes that depend on values are part of a graph; to seed the generator is not, so that entries
    don't.
    """
    torch._dynamo.reset()
    call = torch.compile(op.get_op(), backend=backend, fullgraph=whole)

    def within(*args: Any, **kwargs: Any) -> Any:
        graphs = mock.patch.multiple(
            torch._dynamo.config, capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True
        )
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


class _Given(Exception):
    """A backend has been given a graph."""


def _is_given(op: Any, sample: Any) -> bool:
    """Whether Dynamo captures one graph for tensors that are not on the CPU.

    There, it cannot read a tensor's value as a number.
    """

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        raise _Given

    meta = Place("meta")
    try:
        _found(op, "forward", meta, sample, op_checks.put(meta, op, sample), _compiled(op, backend))
    except Exception as error:
        causes = [error]
        while causes[-1].__cause__ is not None:
            causes.append(causes[-1].__cause__)
        return any(isinstance(cause, _Given) for cause in causes)
    return True  # nothing to compile
