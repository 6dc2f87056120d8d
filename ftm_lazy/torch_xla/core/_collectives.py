"""Collectives of `xla_model` over the processes of the world.

Their results are computed in the order of the calls, while the program goes on; see
`ftm_lazy.distributed.process_group`. They are not differentiable; those of `core.functions` are.
The arguments `pin_layout`, `channel_id` and `use_global_device_ids` have no effect.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeAlias

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
    """Return the reductions; tensors of one dtype are reduced in one message."""
    group, _ = _world.group(groups)
    options = _options(reduce_type)
    results: list[torch.Tensor | None] = [None] * len(tensors)
    with torch.no_grad():
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            indices = [i for i, tensor in enumerate(tensors) if tensor.dtype == dtype]
            flat = torch.cat([tensors[i].reshape(-1) for i in indices])
            group.allreduce([flat], options).wait()
            if scale != 1.0:
                flat = (flat * scale).to(dtype)
            sizes = [tensors[i].numel() for i in indices]
            for i, part in zip(indices, flat.split(sizes), strict=True):
                results[i] = part.reshape(tensors[i].shape)
    return results


def all_reduce(
    reduce_type: str,
    inputs: Tensors,
    scale: float = 1.0,
    groups: Groups = None,
    pin_layout: bool = True,
) -> Tensors:
    """Reduce tensors over the processes.

    Args:
        reduce_type: `REDUCE_SUM`, `REDUCE_MUL`, `REDUCE_AND`, `REDUCE_OR` (bitwise, for integers),
            `REDUCE_MIN` or `REDUCE_MAX`.
        inputs: A tensor, or a list of tensors that are reduced in place.
        scale: Factor of the result; ignored with a single process, as in torch_xla.
        groups: Lists of ordinals, each reduced separately; None for all processes.
        pin_layout: Accepted; has no effect.

    Returns:
        A new tensor of the input's shape and dtype, or the list itself.

    Raises:
        ValueError: The reduction is unknown.
    """
    if torch.compiler.is_compiling():
        return _all_reduce_in_graph(reduce_type, inputs, scale, groups)
    _options(reduce_type)
    if _world.size() == 1:
        return inputs.clone() if isinstance(inputs, torch.Tensor) else inputs
    if isinstance(inputs, torch.Tensor):
        return _reduced(reduce_type, [inputs], scale, groups)[0]
    with torch.no_grad():
        for tensor, result in zip(
            inputs, _reduced(reduce_type, inputs, scale, groups), strict=True
        ):
            tensor.copy_(result)
    return inputs


def _all_reduce_in_graph(
    reduce_type: str, inputs: Tensors, scale: float, groups: Groups
) -> Tensors:
    """Record `all_reduce` as one graph node for ``torch.compile``.

    Dynamo cannot trace into process groups.
    """
    members = [ordinal for group in groups or () for ordinal in group]
    lengths = [len(group) for group in groups or ()]
    if isinstance(inputs, torch.Tensor):
        return _all_reduce_op(inputs, reduce_type, scale, members, lengths)
    _all_reduce_list_op(inputs, reduce_type, scale, members, lengths)
    return inputs


def _groups_of(members: list[int], lengths: list[int]) -> Groups:
    """Rebuild the groups from flat lists: operator schemas have no nested lists."""
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
        value: A tensor, or a list of tensors, of the same shapes in each process.
        dim: Dimension of the concatenation, in the order of ordinals.
        groups: Lists of ordinals, each gathered separately; None for all processes.
        output: Tensors that receive the result.
        pin_layout: Accepted; has no effect.
        channel_id: Accepted; has no effect.
        use_global_device_ids: Accepted; has no effect.

    Returns:
        A tensor or list of tensors; `output` if it is given.

    Raises:
        TypeError: `value` or `output` is neither a tensor nor a list of tensors.
    """
    tensors, outputs = _lists("value", value, output)
    results = [_gather(tensor, dim, groups) for tensor in tensors]
    return _return_results(value, results, outputs, output)


def _gather(tensor: torch.Tensor, dim: int, groups: Groups) -> torch.Tensor:
    group, ordinals = _world.group(groups)
    if len(ordinals) == 1:
        return tensor.detach().clone()
    parts = [torch.empty_like(tensor) for _ in ordinals]
    group.allgather([parts], [tensor.detach()]).wait()
    return torch.cat(parts, dim)


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
    """Reduce tensors over the processes, and return this process's part.

    Args:
        reduce_type: As in `all_reduce`.
        input: A tensor or a list of tensors.
        scale: Factor of the result.
        scatter_dim: Dimension that is split.
        shard_count: Number of parts, which must be the number of processes of the group.
        groups: Lists of ordinals, each reduced separately; None for all processes.
        output: Tensors that receive the result.
        pin_layout: Accepted; has no effect.
        channel_id: Accepted; has no effect.
        use_global_device_ids: Accepted; has no effect.

    Returns:
        A tensor or list of tensors; `output` if it is given.

    Raises:
        TypeError: `input` or `output` is neither a tensor nor a list of tensors.
        ValueError: `shard_count` is not the size of the group.
    """
    tensors, outputs = _lists("input", input, output)
    _, ordinals = _world.group(groups)
    if shard_count != len(ordinals):
        raise ValueError(f"shard_count is {shard_count}, but {len(ordinals)} processes take part")
    rank = ordinals.index(_world.ordinal())
    results = []
    for reduced in _reduced(reduce_type, tensors, scale, groups):
        results.append(reduced.chunk(shard_count, scatter_dim)[rank].contiguous())
    return _return_results(input, results, outputs, output)


def _lists(
    name: str, value: Tensors, output: Tensors | None
) -> tuple[list[torch.Tensor], list[torch.Tensor] | None]:
    """Check `value` and `output`, and return both as lists of tensors."""
    for label, given in ((f"`{name}`", value), ("`output`", output)):
        is_tensor = isinstance(given, torch.Tensor) or (label == "`output`" and given is None)
        is_list = isinstance(given, list) and all(isinstance(e, torch.Tensor) for e in given)
        if not (is_tensor or is_list):
            raise TypeError(
                f"{label} needs to be a Tensor or a list of Tensors, but given {type(given)}."
            )
    if isinstance(value, torch.Tensor):
        return [value], None if output is None else [output]
    if output is not None and len(output) != len(value):
        raise ValueError(
            f"`output` length doesn't match `{name}` length: {len(output)} vs {len(value)}."
        )
    return value, output


def _return_results(
    value: Tensors, results: list[torch.Tensor], outputs: list[torch.Tensor] | None, output: object
) -> Tensors:
    """Return the results in the structure of `value`, or copy them to `outputs`."""
    if outputs is None:
        return results[0] if isinstance(value, torch.Tensor) else results
    with torch.no_grad():
        for target, result in zip(outputs, results, strict=True):
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
    """Send the i-th part of `value` to process i, and concatenate the received parts.

    Args:
        value: A tensor whose size in `split_dimension` is divisible by `split_count`.
        split_dimension: Dimension that is split.
        concat_dimension: Dimension of the concatenation.
        split_count: Number of parts, which must be the number of processes of the group.
        groups: Lists of ordinals, each exchanged separately; None for all processes.
        pin_layout: Accepted; has no effect.

    Returns:
        A new tensor.

    Raises:
        ValueError: `split_count` is not the size of the group.
    """
    group, ordinals = _world.group(groups)
    if split_count != len(ordinals):
        raise ValueError(f"split_count is {split_count}, but {len(ordinals)} processes take part")
    sent = torch.stack(value.detach().chunk(split_count, split_dimension))
    received = torch.empty_like(sent)
    group.alltoall_base(received, sent, [], []).wait()
    return torch.cat(received.unbind(0), concat_dimension)


def collective_permute(value: torch.Tensor, pairs: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return the value of the process that sends to this one; zeros if none does.

    Args:
        value: A tensor of the same shape in each process.
        pairs: (source, target) ordinals. Each ordinal is the target of at most one pair.
    """
    group, _ = _world.group()
    ordinal = _world.ordinal()
    own = value.detach()
    received = torch.zeros_like(own)
    sends = [
        group.send([own], target, 0) for source, target in pairs if source == ordinal != target
    ]
    for source, target in pairs:
        if target == ordinal:
            if source == target:
                received = own.clone()
            else:
                group.recv([received], source, 0).wait()
    for work in sends:
        work.wait()
    return received


def collective_broadcast(
    tensors: list[torch.Tensor],
    root_ordinal: int = 0,
    groups: Groups = None,
    pin_layout: bool = True,
) -> None:
    """Replace each tensor, in place, by that of one process.

    Args:
        tensors: Tensors of the same shapes in each process.
        root_ordinal: The process whose values are sent.
        groups: Lists of ordinals; only the group with `root_ordinal` takes part.
        pin_layout: Accepted; has no effect.
    """
    group, ordinals = _world.group(groups)
    if len(ordinals) == 1 or root_ordinal not in ordinals:
        return
    options = dist.BroadcastOptions()
    options.rootRank, options.rootTensor = ordinals.index(root_ordinal), 0
    for tensor in tensors:
        group.broadcast([tensor], options).wait()


def broadcast_master_param(model: torch.nn.Module) -> None:
    """Replace the parameters and buffers of `model` by those of process 0."""
    with torch.no_grad():
        collective_broadcast(list(itertools.chain(model.parameters(), model.buffers())))


# --- buckets of tensors


class CoalescingBuckets:
    """Calls a function on buckets of tensors.

    Args:
        func: Takes a list of tensors and the list of outputs or None; returns results.
        input_list: The tensors.
        output_list: One output for each tensor, or None.
        bucket_cap_mb: Size of a bucket in MiB.
    """

    def __init__(
        self,
        func: Callable[[list[torch.Tensor], list[torch.Tensor] | None], Tensors],
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
        """Add the input with index `idx` to the bucket."""
        self._bucket.append(idx)
        self._bytes += tensor.nbytes

    def flush(self) -> None:
        """Call the function on the tensors in the bucket."""
        if self._bucket:
            outputs = None if self._outputs is None else [self._outputs[i] for i in self._bucket]
            self._results += self._func([self._inputs[i] for i in self._bucket], outputs)
        self._bucket, self._bytes = [], 0

    def __call__(self) -> list[torch.Tensor]:
        """Process all inputs, and return their results."""
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
    """Call `all_gather` for a list of tensors, in buckets of `bucket_cap_mb` MiB."""

    def gather(tensors: list[torch.Tensor], outputs: list[torch.Tensor] | None) -> Tensors:
        return all_gather(tensors, dim, groups, outputs)

    return CoalescingBuckets(gather, input_list, output, bucket_cap_mb)()


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
    """Call `reduce_scatter` for a list of tensors, in buckets of `bucket_cap_mb` MiB."""

    def scatter(tensors: list[torch.Tensor], outputs: list[torch.Tensor] | None) -> Tensors:
        return reduce_scatter(
            reduce_type, tensors, scale, scatter_dim, shard_count, groups, outputs
        )

    return CoalescingBuckets(scatter, input_list, output, bucket_cap_mb)()


def all_reduce_bucketized_gradients(
    gradients: list[torch.Tensor],
    scale: float,
    groups: Groups,
    pin_layout: bool,
    bucket_cap_mb: int = 0,
) -> None:
    """Sum gradients over the processes in place, in buckets of `bucket_cap_mb` MiB.

    Args:
        gradients: The gradients.
        scale: Factor of the sums.
        groups: As in `all_reduce`.
        pin_layout: Accepted; has no effect.
        bucket_cap_mb: Size of a bucket in MiB.
    """
    CoalescingBuckets(
        lambda tensors, _: all_reduce(REDUCE_SUM, tensors, scale, groups),
        list(gradients),
        None,
        bucket_cap_mb,
    )()
