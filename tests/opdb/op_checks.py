"""What is run for an entry of op_db: one function for each check, which yields its cases.

| check | what must agree with the CPU |
|---|---|
| forward | the results of every sample |
| backward | the gradients of every sample, for random cotangents |
| noncontiguous | results and gradients of samples, with arguments of odd strides |
| inplace | the in-place variant: what it returns, what it leaves, gradients |
| out | the out= variant of the first samples: into a result's shape, strided, empty, of another dtype |
| errors | the exceptions of the entry's error inputs |
| second | second derivatives of the first samples |
| jvp | forward-mode derivatives of the first samples |
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.testing._internal.common_utils import noncontiguous_like
from torch.utils import _pytree as pytree

from opdb.engine import Case, Leaf, Refused
from opdb.place import CPU, Place, tensors

__all__ = [
    "CHECKS", "DTYPES", "applies", "cases", "devices", "gradients", "has_ties", "leaves", "primary", "put", "samples", "settled",
]  # fmt: skip

DTYPES = (
    torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float64, torch.float16, torch.int32, torch.uint8,
    torch.int8, torch.int16, torch.complex64,
)  # fmt: skip
"""The dtypes that are checked where the CPU supports them for the entry, in the order of a full
run."""

READS_STORAGE = ("as_strided", "as_strided_copy", "as_strided_scatter")
"""Entries without the check `noncontiguous`: they address the storage, whose layout it changes."""

ON_CPU = ("tensor_split",)
"""Entries whose tensor arguments after the first are split positions and always on the CPU."""

TIES = {
    "kthvalue": 1, "topk": 1, "median": 0, "nanmedian": 0, "mode": 0, "sort": 0, "argsort": 0,
    "msort": 0,
}  # fmt: skip
"""Entries with indices as results, which are undetermined for equal values (unless `stable=True`).
They are compared by the values at these indices. The number is the position of `dim` among the
arguments."""

WIDENS = ("float_power",)
"""Entries whose result is float64 whatever they are given: other tensors cannot take it in
place."""

MANY = 200
"""Samples that variants and other dtypes take at most, evenly chosen: a dozen entries have up to
1,440, all combinations of their arguments. Forward and backward in the primary dtype take all."""

OTHER_DTYPE = "of int64"
"""The one kind of `out` that ops may refuse."""

FEW = 6
"""Samples that `out`, `second` and `jvp` take: the first ones, which every family orders from plain
to odd."""


def primary(op: Any) -> torch.dtype | None:
    """The dtype for which every check of the entry runs: float32 if it has it; None if the CPU has
    none."""
    supported = op.supported_dtypes("cpu")
    return next(
        (dtype for dtype in DTYPES if dtype in supported),
        next(iter(sorted(supported, key=str)), None),
    )


def applies(op: Any, dtype: torch.dtype, check: str) -> bool:
    """Whether the entry has the check in this dtype."""
    if dtype not in op.supported_dtypes("cpu"):
        return False
    differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    if check == "forward":
        return True
    if check == "backward":
        return differentiable
    if dtype != primary(op):
        return False
    return {
        "noncontiguous": op.name not in READS_STORAGE,
        "inplace": op.inplace_variant is not None
        and (op.name not in WIDENS or dtype == torch.float64),
        "out": op.supports_out,
        "errors": op.error_inputs_func is not None,
        "second": differentiable and op.supports_gradgrad,
        "jvp": differentiable and op.supports_forward_ad,
    }[check]


def cases(op: Any, dtype: torch.dtype, check: str) -> Iterator[Case]:
    """The cases of one check."""
    return CHECKS[check](op, dtype)


def samples(
    op: Any, dtype: torch.dtype, *, grad: bool = False, limit: int | None = None
) -> Iterator[tuple[str, Any]]:
    """The samples of an entry with what names them, all or some of them."""
    grad = grad and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    torch.manual_seed(0)
    found = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
    taken = range(len(found))
    if limit == FEW:
        taken = taken[:FEW]
    elif limit is not None and len(found) > limit:
        taken = [index * len(found) // limit for index in range(limit)]
    for index in taken:
        yield f"sample {index} {_signature(found[index])}", found[index]


def _limit(op: Any, dtype: torch.dtype) -> int | None:
    return None if dtype == primary(op) else MANY


def put(place: Place, op: Any, sample: Any) -> Any:
    """The sample's input, positional and keyword arguments at `place`."""
    if op.name in ON_CPU:
        return place.put(sample.input), sample.args, sample.kwargs
    return place.put((sample.input, sample.args, sample.kwargs))


def _signature(sample: Any) -> str:
    """The arguments of a sample, tensors by dtype and shape."""

    def show(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return _Text(
                f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}".replace(" ", "")
            )
        return leaf

    shown = pytree.tree_map(show, (sample.input, *sample.args))
    named = [f"{name}={value!r}" for name, value in pytree.tree_map(show, sample.kwargs).items()]
    return f"({', '.join([*map(repr, shown), *named])})"[:200]


class _Text(str):
    """A text that is its own representation."""

    def __repr__(self) -> str:
        return str(self)


def leaves(name: str, tree: Any) -> list[Leaf]:
    """The leaves of `tree`, named after their place in it."""
    return [
        (name + pytree.keystr(path), leaf) for path, leaf in pytree.tree_flatten_with_path(tree)[0]
    ]


def settled(op: Any, result: Any, arguments: Any) -> Any:
    """`result` with the values at indices in place of indices, where equal values may have any of
    several."""
    input, args, kwargs = arguments
    if op.name not in TIES or kwargs.get("stable"):
        return result
    *values, indices = result if isinstance(result, tuple) else (result,)
    if indices.dtype != torch.int64 or (not values and op.name != "argsort"):
        return result
    position = TIES[op.name]
    dim = kwargs.get("dim", args[position] if len(args) > position else -1)
    full = indices if indices.dim() == input.dim() else indices.unsqueeze(dim)
    return values, input.detach().gather(dim, full), indices.shape


def has_ties(op: Any, sample: Any) -> bool:
    """Whether any of several equal values may get the gradient."""
    return op.name in TIES and sample.input.unique().numel() < sample.input.numel()


class _Written:
    """Watches tensors for being written to."""

    def __init__(self, tree: Any) -> None:
        self._watched = [(tensor, tensor._version) for tensor in tensors(tree)]

    def leaves(self) -> list[Leaf]:
        """Those that were written to since."""
        return [
            (f"argument {i}, written", t)
            for i, (t, old) in enumerate(self._watched)
            if t._version != old
        ]


def devices(place: Place, arguments: Any) -> contextlib.AbstractContextManager[Any]:
    """Makes `place` the default device for a call that names no other."""
    named = any(
        isinstance(leaf, (torch.Tensor, torch.device)) for leaf in pytree.tree_leaves(arguments)
    )
    return contextlib.nullcontext() if named else torch.device(place.device)


def _differentiable(tree: Any) -> list[torch.Tensor]:
    return [t for t in tensors(tree) if t.requires_grad]


def cotangents(place: Place, outputs: list[torch.Tensor], seed: int = 7) -> list[torch.Tensor]:
    """Random tensors like `outputs`, the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    dtype_of = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
    drawn = []
    for output in outputs:
        real = output.dtype.to_real() if output.is_complex() else output.dtype
        narrow = torch.float32 if real == torch.float64 else dtype_of.get(real, real)
        shape = (*output.shape, 2) if output.is_complex() else output.shape
        values = torch.randn(shape, generator=generator, dtype=narrow).to(torch.float16).to(real)
        drawn.append(
            (torch.view_as_complex(values) if output.is_complex() else values).to(place.device)
        )
    return drawn


def gradients(place: Place, outputs: Any, inputs: Any) -> list[Leaf]:
    """The gradients of `outputs` by `inputs`; Refused if nothing is differentiable."""
    results, wanted = _differentiable(outputs), _differentiable(inputs)
    if not results or not wanted:
        raise Refused("nothing is differentiable")
    found = torch.autograd.grad(results, wanted, cotangents(place, results), allow_unused=True)
    return [(f"gradient {index}", gradient) for index, gradient in enumerate(found)]


def _forward(op: Any, dtype: torch.dtype) -> Iterator[Case]:
    for label, sample in samples(op, dtype, limit=_limit(op, dtype)):

        def run(place: Place, sample: Any = sample) -> list[Leaf]:
            input, args, kwargs = arguments = put(place, op, sample)
            written = _Written(arguments)
            with devices(place, arguments):
                result = sample.output_process_fn_grad(op(input, *args, **kwargs))
            return leaves("result", settled(op, result, arguments)) + written.leaves()

        yield Case(label, run)


def _backward(op: Any, dtype: torch.dtype) -> Iterator[Case]:
    for label, sample in samples(op, dtype, grad=True, limit=_limit(op, dtype)):

        def run(place: Place, sample: Any = sample) -> list[Leaf]:
            if has_ties(op, sample):
                raise Refused("equal values")
            input, args, kwargs = arguments = put(place, op, sample)
            result = op.gradcheck_wrapper(op.get_op(), input, *args, **kwargs)
            return gradients(place, sample.output_process_fn_grad(result), arguments)

        yield Case(label, run)


def _noncontiguous(op: Any, dtype: torch.dtype) -> Iterator[Case]:
    for label, sample in samples(op, dtype, grad=True, limit=MANY):

        def run(place: Place, sample: Any = sample) -> list[Leaf]:
            input, args, kwargs = arguments = _strided(put(place, op, sample))
            written = _Written(arguments)
            try:
                with devices(place, arguments):
                    result = sample.output_process_fn_grad(op(input, *args, **kwargs))
            except RuntimeError as error:
                if place != CPU:
                    raise
                raise Refused("the CPU takes no such strides") from error
            found = leaves("result", settled(op, result, arguments)) + written.leaves()
            wanted = _differentiable(result) and not has_ties(op, sample)
            return found + (gradients(place, result, arguments) if wanted else [])

        yield Case(label, run)


def _strided(tree: Any) -> Any:
    """`tree` with tensors that are every second element of others."""
    moved: dict[int, torch.Tensor] = {}

    def stride(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided:
            return leaf
        return moved.setdefault(id(leaf), noncontiguous_like(leaf))

    return pytree.tree_map(stride, tree)


def _inplace(op: Any, dtype: torch.dtype) -> Iterator[Case]:
    for label, sample in samples(op, dtype, grad=op.supports_inplace_autograd, limit=MANY):
        if sample.broadcasts_input:
            continue

        def run(place: Place, sample: Any = sample) -> list[Leaf]:
            input, args, kwargs = arguments = put(place, op, sample)
            target = pytree.tree_map(
                lambda t: t.clone() if isinstance(t, torch.Tensor) else t, input
            )
            result = op.inplace_variant(target, *args, **kwargs)
            found = [("returns its argument", result is target), *leaves("result", result)]
            found += leaves("target", target)
            return found + (gradients(place, result, arguments) if _differentiable(result) else [])

        yield Case(label, run)


def _out(op: Any, dtype: torch.dtype) -> Iterator[Case]:
    makers: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "as large as the result": lambda t: torch.full_like(t, 42),
        "strided": lambda t: noncontiguous_like(torch.full_like(t, 42)),
        "empty": lambda t: t.new_empty(0),
        OTHER_DTYPE: lambda t: torch.empty_like(t, dtype=torch.int64),
    }
    for label, sample in samples(op, dtype, limit=FEW):
        for kind, make in makers.items():
            # by the CPU, which runs first: some of its ops give `out` strides of their own
            kept: list[bool] = []

            same = kind != OTHER_DTYPE

            def run(
                place: Place,
                sample: Any = sample,
                make: Any = make,
                kept: Any = kept,
                same: bool = same,
            ) -> list[Leaf]:
                input, args, kwargs = arguments = put(place, op, sample)
                with devices(place, arguments):
                    plain = op(input, *args, **kwargs)
                if not _can_be_out(plain):
                    raise Refused("the results are no tensors")
                out = pytree.tree_map(make, plain)
                before = [t.stride() for t in tensors(out)]
                result = op(input, *args, **kwargs, out=out)
                given = list(zip(tensors(result), tensors(out), strict=True))
                found: list[Leaf] = [("returns out", [one is other for one, other in given])]
                now = [t.stride() == old for (_, t), old in zip(given, before, strict=True)]
                if place == CPU:
                    kept[:] = now
                    # a few of its ops write other values into strided tensors
                    result = plain if same else result
                found.append(
                    (
                        "keeps strides, or the CPU does not",
                        [one or not its for one, its in zip(now, kept)],
                    )
                )
                return found + leaves("result", settled(op, result, arguments))

            yield Case(f"{label}, out {kind}", run, may_raise=not same)


def _can_be_out(result: Any) -> bool:
    flat = pytree.tree_leaves(result)
    return bool(flat) and all(isinstance(leaf, torch.Tensor) for leaf in flat)


def _errors(op: Any, dtype: torch.dtype) -> Iterator[Case]:
    """The samples are made on the device itself, as in PyTorch: some depend on it."""
    wanted = list(op.error_inputs("cpu"))
    given = list(op.error_inputs("ftm"))
    for index, (on_cpu, on_ftm) in enumerate(zip(wanted, given, strict=False)):

        def run(place: Place, on_cpu: Any = on_cpu, on_ftm: Any = on_ftm) -> list[Leaf]:
            if place == CPU:
                if not _raises(op, on_cpu.sample_input):
                    raise Refused("the CPU does not raise")
                raise on_ftm.error_type("as the entry demands of this device")
            sample = on_ftm.sample_input
            result = op(sample.input, *sample.args, **sample.kwargs)
            torch.ftm.synchronize()  # what depends on values is raised when they are known
            return leaves("result", result)

        yield Case(f"error input {index}", run, may_raise=True)


def _raises(op: Any, sample: Any) -> bool:
    try:
        op(sample.input, *sample.args, **sample.kwargs)
    except Exception:
        return True
    return False


def _second(op: Any, dtype: torch.dtype) -> Iterator[Case]:
    for label, sample in samples(op, dtype, grad=True, limit=FEW):

        def run(place: Place, sample: Any = sample) -> list[Leaf]:
            input, args, kwargs = arguments = put(place, op, sample)
            result = sample.output_process_fn_grad(
                op.gradcheck_wrapper(op.get_op(), input, *args, **kwargs)
            )
            outputs, inputs = _differentiable(result), _differentiable(arguments)
            if not outputs or not inputs:
                raise Refused("nothing is differentiable")
            first = [t.requires_grad_() for t in cotangents(place, outputs)]
            try:
                firsts = torch.autograd.grad(
                    outputs, inputs, first, create_graph=True, allow_unused=True
                )
                return gradients(place, firsts, [inputs, first])
            except RuntimeError as error:
                if place != CPU:
                    raise
                raise Refused("the CPU has no second derivative") from error

        yield Case(label, run)


def _jvp(op: Any, dtype: torch.dtype) -> Iterator[Case]:
    for label, sample in samples(op, dtype, grad=True, limit=FEW):

        def run(place: Place, sample: Any = sample) -> list[Leaf]:
            arguments = put(place, op, sample)
            inputs = _differentiable(arguments)
            directions = dict(zip(map(id, inputs), cotangents(place, inputs), strict=True))

            def dual(leaf: Any) -> Any:
                return (
                    forward_ad.make_dual(leaf.detach(), directions[id(leaf)])
                    if id(leaf) in directions
                    else leaf
                )

            with forward_ad.dual_level():
                input, args, kwargs = pytree.tree_map(dual, arguments)
                result = sample.output_process_fn_grad(
                    op.gradcheck_wrapper(op.get_op(), input, *args, **kwargs)
                )
                flat = [t for t in tensors(result) if t.is_floating_point() or t.is_complex()]
                return [
                    (f"tangent {index}", forward_ad.unpack_dual(t).tangent)
                    for index, t in enumerate(flat)
                ]

        yield Case(label, run)


CHECKS: dict[str, Callable[[Any, torch.dtype], Iterator[Case]]] = {
    "forward": _forward, "backward": _backward, "noncontiguous": _noncontiguous,
    "inplace": _inplace, "out": _out, "errors": _errors, "second": _second, "jvp": _jvp,
}  # fmt: skip
"""The checks, in the order in which they run."""
