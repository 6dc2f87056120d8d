"""Collectives of `xla_model` over the processes of the world.

Each reads its tensors, exchanges them on the host and gives tensors on the device; see
`ftm_lazy.distributed.process_group`. None of them is differentiable; `core.functions` has those
that are. `pin_layout`, `channel_id` and `use_global_device_ids` are about XLA's programs and mean
nothing here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
import torch.distributed as dist

from ftm_lazy.torch_xla import _world

__all__ = [
    "REDUCE_AND",
    "REDUCE_MAX",
    "REDUCE_MIN",
    "REDUCE_MUL",
    "REDUCE_OR",
    "REDUCE_SUM",
    "CoalescingBuckets",
    "all_gather",
    "all_gather_bucketized",
    "all_reduce",
    "all_reduce_bucketized_gradients",
    "all_to_all",
    "broadcast_master_param",
    "collective_broadcast",
    "collective_permute",
    "reduce_scatter",
    "reduce_scatter_bucketized",
]

REDUCE_SUM = "sum"
REDUCE_MUL = "mul"
REDUCE_AND = "and"
REDUCE_OR = "or"
REDUCE_MIN = "min"
REDUCE_MAX = "max"

_OPERATORS = {
    REDUCE_SUM: dist.ReduceOp.SUM,
    REDUCE_MUL: dist.ReduceOp.PRODUCT,
    REDUCE_AND: dist.ReduceOp.BAND,
    REDUCE_OR: dist.ReduceOp.BOR,
    REDUCE_MIN: dist.ReduceOp.MIN,
    REDUCE_MAX: dist.ReduceOp.MAX,
}

Tensors: TypeAlias = torch.Tensor | list[torch.Tensor]
Groups: TypeAlias = Sequence[Sequence[int]] | None


def _options(reduce_type: str) -> dist.AllreduceOptions:
    if reduce_type not in _OPERATORS:
        raise ValueError(
            f"there is no reduction {reduce_type!r}; the reductions are {', '.join(_OPERATORS)}"
        )
    options = dist.AllreduceOptions()
    options.reduceOp = _OPERATORS[reduce_type]
    return options


def _reduced(
    reduce_type: str, tensors: Sequence[torch.Tensor], scale: float, groups: Groups
) -> list[torch.Tensor]:
    """Return the reductions, on the CPU.  All tensors of a dtype travel as one."""
    group, _ = _world.group(groups)
    options = _options(reduce_type)
    # the first read runs all that is pending
    host = [tensor.detach().cpu().contiguous() for tensor in tensors]
    results: list[torch.Tensor | None] = [None] * len(host)
    for dtype in dict.fromkeys(tensor.dtype for tensor in host):
        places = [i for i, tensor in enumerate(host) if tensor.dtype == dtype]
        flat = torch.cat([host[i].reshape(-1) for i in places])
        wire = flat.to(torch.uint8) if dtype == torch.bool else flat
        group.allreduce([wire], options).wait()
        flat = wire.to(dtype) if dtype == torch.bool else wire
        if scale != 1.0:
            flat = (flat * scale).to(dtype)
        for i, part in zip(places, flat.split([host[i].numel() for i in places]), strict=True):
            results[i] = part.reshape(host[i].shape)
    return results


def all_reduce(
    reduce_type: str,
    inputs: Tensors,
    scale: float = 1.0,
    groups: Groups = None,
    pin_layout: bool = True,
) -> Tensors:
    """Reduce over the processes.

    Args:
        reduce_type: one of `REDUCE_SUM`, `REDUCE_MUL`, `REDUCE_AND`, `REDUCE_OR` (bits of
            integers), `REDUCE_MIN`, `REDUCE_MAX`.
        inputs: a tensor, or a list of them that are reduced in place.
        scale: multiplies the result; not with a single process, as in torch_xla.
        groups: lists of ordinals, each reduced for itself; None: all processes together.

    Returns:
        a new tensor of the shape of the input, or the list itself.
    """
    if torch.compiler.is_compiling():
        return _all_reduce_in_graph(reduce_type, inputs, scale, groups)
    _options(reduce_type)
    if _world.size() == 1:
        return inputs.clone() if isinstance(inputs, torch.Tensor) else inputs
    if isinstance(inputs, torch.Tensor):
        return _reduced(reduce_type, [inputs], scale, groups)[0].to(inputs.device)
    with torch.no_grad():
        for tensor, result in zip(
            inputs, _reduced(reduce_type, inputs, scale, groups), strict=True
        ):
            tensor.copy_(result)
    return inputs


def _all_reduce_in_graph(
    reduce_type: str, inputs: Tensors, scale: float, groups: Groups
) -> Tensors:
    """`all_reduce` as one node of a graph, for ``torch.compile``: Dynamo cannot trace into process
    groups."""
    members = [ordinal for group in groups or () for ordinal in group]
    lengths = [len(group) for group in groups or ()]
    if isinstance(inputs, torch.Tensor):
        return _all_reduce_op(inputs, reduce_type, scale, members, lengths)
    _all_reduce_list_op(inputs, reduce_type, scale, members, lengths)
    return inputs


def _groups_of(members: list[int], lengths: list[int]) -> Groups:
    """Return the groups from their members, one group after the other: a schema has no lists of lists."""
    ordinals = iter(members)
    return [list(itertools.islice(ordinals, length)) for length in lengths] or None


@torch.library.custom_op("torch_xla::all_reduce", mutates_args=())
def _all_reduce_op(
    tensor: torch.Tensor, reduce_type: str, scale: float, members: list[int], lengths: list[int]
) -> torch.Tensor:
    return all_reduce(reduce_type, tensor, scale, _groups_of(members, lengths))


@_all_reduce_op.register_fake
def _(
    tensor: torch.Tensor, reduce_type: str, scale: float, members: list[int], lengths: list[int]
) -> torch.Tensor:
    return torch.empty_like(tensor)


@torch.library.custom_op("torch_xla::all_reduce_list", mutates_args=("tensors",))
def _all_reduce_list_op(
    tensors: list[torch.Tensor],
    reduce_type: str,
    scale: float,
    members: list[int],
    lengths: list[int],
) -> None:
    all_reduce(reduce_type, tensors, scale, _groups_of(members, lengths))


def all_gather(
    value: Tensors,
    dim: int = 0,
    groups: Groups = None,
    output: Tensors | None = None,
    pin_layout: bool = True,
    channel_id: int | None = None,
    use_global_device_ids: bool | None = None,
) -> Tensors:
    """Concatenate the values of all processes.

    Args:
        value: a tensor, or a list of them, of the same shapes in each process.
        dim: along which they are concatenated, in the order of the ordinals.
        groups: lists of ordinals, each gathered for itself.
        output: tensors that take the result.

    Raises TypeError if `value` and `output` are neither tensors nor lists of them.
    """
    listed, into = _lists("value", value, output)
    results = [_gathered(tensor, dim, groups) for tensor in listed]
    return _delivered(value, results, into, output)


def _gathered(tensor: torch.Tensor, dim: int, groups: Groups) -> torch.Tensor:
    group, ordinals = _world.group(groups)
    if len(ordinals) == 1:
        return tensor.detach().clone()
    own = tensor.detach().cpu()
    parts = [torch.empty_like(own) for _ in ordinals]
    group.allgather([parts], [own]).wait()
    return torch.cat(parts, dim).to(tensor.device)


def reduce_scatter(
    reduce_type: str,
    input: Tensors,
    scale: float,
    scatter_dim: int,
    shard_count: int,
    groups: Groups = None,
    output: Tensors | None = None,
    pin_layout: bool = True,
    channel_id: int | None = None,
    use_global_device_ids: bool | None = None,
) -> Tensors:
    """Reduce over the processes and leaves each with its part.

    Args:
        reduce_type: as in `all_reduce`.
        input: a tensor, or a list of them.
        scale: multiplies the result.
        scatter_dim: the dimension that is divided.
        shard_count: into how many parts: the number of processes of the group.
        groups: lists of ordinals, each reduced for itself.
        output: tensors that take the result.

    Raises TypeError as `all_gather` does, ValueError if `shard_count` is not the size of the group.
    """
    listed, into = _lists("input", input, output)
    _, ordinals = _world.group(groups)
    if shard_count != len(ordinals):
        raise ValueError(f"shard_count is {shard_count}, but {len(ordinals)} processes take part")
    rank = ordinals.index(_world.ordinal())
    results = []
    for tensor, reduced in zip(listed, _reduced(reduce_type, listed, scale, groups), strict=True):
        results.append(reduced.chunk(shard_count, scatter_dim)[rank].contiguous().to(tensor.device))
    return _delivered(input, results, into, output)


def _lists(
    name: str, value: Any, output: Any
) -> tuple[list[torch.Tensor], list[torch.Tensor] | None]:
    """`value` and `output` as lists of tensors."""
    for what, given in ((f"`{name}`", value), ("`output`", output)):
        whole = isinstance(given, torch.Tensor) or (what == "`output`" and given is None)
        if not whole and not (
            isinstance(given, list) and all(isinstance(each, torch.Tensor) for each in given)
        ):
            raise TypeError(
                f"{what} needs to be a Tensor or a list of Tensors, but given {type(given)}."
            )
    if isinstance(value, torch.Tensor):
        return [value], None if output is None else [output]
    if output is not None and len(output) != len(value):
        raise ValueError(
            f"`output` length doesn't match `{name}` length: {len(output)} vs {len(value)}."
        )
    return value, output


def _delivered(
    value: Tensors, results: list[torch.Tensor], into: list[torch.Tensor] | None, output: object
) -> Tensors:
    if into is None:
        return results[0] if isinstance(value, torch.Tensor) else results
    with torch.no_grad():
        for target, result in zip(into, results, strict=True):
            target.copy_(result)
    return output


def all_to_all(
    value: torch.Tensor,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    groups: Groups = None,
    pin_layout: bool = True,
) -> torch.Tensor:
    """Send the i-th part of `value` along `split_dimension` to process i, and concatenates what
    arrives.

    Args:
        value: divisible by `split_count` along `split_dimension`.
        split_dimension: along which it is divided.
        concat_dimension: along which the arrivals are concatenated.
        split_count: the number of processes of the group.
        groups: lists of ordinals, each exchanged for itself.
    """
    group, ordinals = _world.group(groups)
    if split_count != len(ordinals):
        raise ValueError(f"split_count is {split_count}, but {len(ordinals)} processes take part")
    sent = torch.stack(value.detach().cpu().chunk(split_count, split_dimension))
    received = torch.empty_like(sent)
    group.alltoall_base(received, sent, [], []).wait()
    return torch.cat(received.unbind(0), concat_dimension).to(value.device)


def collective_permute(value: torch.Tensor, pairs: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return the value of the process that sends to this one; zeros if none does.

    Args:
        value: of the same shape in each process.
        pairs: (source, target) ordinals; no ordinal is a target twice.
    """
    group, _ = _world.group()
    own = value.detach().cpu()
    received = torch.zeros_like(own)
    sends = [
        group.send([own], target, 0) for source, target in pairs if source == _here() != target
    ]
    for source, target in pairs:
        if target == _here():
            if source == target:
                received = own.clone()
            else:
                group.recv([received], source, 0).wait()
    for work in sends:
        work.wait()
    return received.to(value.device)


def _here() -> int:
    return _world.ordinal()


def collective_broadcast(
    tensors: list[torch.Tensor],
    root_ordinal: int = 0,
    groups: Groups = None,
    pin_layout: bool = True,
) -> None:
    """Each tensor becomes that of process `root_ordinal`, in place."""
    group, ordinals = _world.group(groups)
    if len(ordinals) == 1 or root_ordinal not in ordinals:
        return
    options = dist.BroadcastOptions()
    options.rootRank, options.rootTensor = ordinals.index(root_ordinal), 0
    for tensor in tensors:
        group.broadcast([tensor], options).wait()


def broadcast_master_param(model: torch.nn.Module) -> None:
    """The parameters and buffers of `model` become those of process 0."""
    with torch.no_grad():
        collective_broadcast(list(itertools.chain(model.parameters(), model.buffers())))


# --- many tensors at once


class CoalescingBuckets:
    """Calls a function on buckets of tensors.

    Args:
        func: takes a tensor or a list of them, and the outputs or None; returns results.
        input_list: the tensors.
        output_list: one output for each, or None.
        bucket_cap_mb: megabytes of tensors in a bucket.
    """

    def __init__(
        self,
        func: Callable[[Any, Any], Any],
        input_list: list[torch.Tensor],
        output_list: list[torch.Tensor] | None = None,
        bucket_cap_mb: int = 160,
    ) -> None:
        self._func = func
        self._inputs, self._outputs = _lists("input_list", input_list, output_list)
        self._limit = bucket_cap_mb * 2**20
        self._bucket: list[int] = []
        self._bytes = 0
        self._results: list[torch.Tensor] = []

    def add(self, tensor: torch.Tensor, idx: int) -> None:
        """Put input number `idx` into the bucket."""
        self._bucket.append(idx)
        self._bytes += tensor.nbytes

    def flush(self) -> None:
        """Call the function on what is in the bucket."""
        if self._bucket:
            outputs = None if self._outputs is None else [self._outputs[i] for i in self._bucket]
            self._results += self._func([self._inputs[i] for i in self._bucket], outputs)
        self._bucket, self._bytes = [], 0

    def __call__(self) -> list[torch.Tensor]:
        """Return the results for all inputs."""
        for index, tensor in enumerate(self._inputs):
            if self._bytes + tensor.nbytes > self._limit:
                self.flush()
            self.add(tensor, index)
        self.flush()
        return self._results


def all_gather_bucketized(
    input_list: list[torch.Tensor],
    dim: int = 0,
    groups: Groups = None,
    output: list[torch.Tensor] | None = None,
    pin_layout: bool = False,
    bucket_cap_mb: int = 160,
) -> list[torch.Tensor]:
    """`all_gather` of a list, in buckets of `bucket_cap_mb` megabytes."""
    gather = CoalescingBuckets(
        lambda some, into: all_gather(some, dim, groups, into), input_list, output, bucket_cap_mb
    )
    return gather()


def reduce_scatter_bucketized(
    reduce_type: str,
    input_list: list[torch.Tensor],
    scale: float,
    scatter_dim: int,
    shard_count: int,
    groups: Groups = None,
    output: list[torch.Tensor] | None = None,
    pin_layout: bool = False,
    bucket_cap_mb: int = 160,
) -> list[torch.Tensor]:
    """`reduce_scatter` of a list, in buckets of `bucket_cap_mb` megabytes."""

    def scatter(some: list[torch.Tensor], into: list[torch.Tensor] | None) -> Tensors:
        return reduce_scatter(reduce_type, some, scale, scatter_dim, shard_count, groups, into)

    return CoalescingBuckets(scatter, input_list, output, bucket_cap_mb)()


def all_reduce_bucketized_gradients(
    gradients: list[torch.Tensor],
    scale: float,
    groups: Groups,
    pin_layout: bool,
    bucket_cap_mb: int = 0,
) -> None:
    """Sum gradients over the processes in place, times `scale`, in buckets of `bucket_cap_mb`
    megabytes."""
    CoalescingBuckets(
        lambda some, _: all_reduce(REDUCE_SUM, some, scale, groups),
        list(gradients),
        None,
        bucket_cap_mb,
    )()
