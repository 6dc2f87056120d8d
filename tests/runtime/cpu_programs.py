"""Programs for the CPU whose parts ask whether there is an accelerator. As a script: writes what
each of them gives.

python cpu_programs.py results.json
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.attention import flex_attention as flex
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

PROGRAMS: dict[str, Callable[[], Any]] = {}


def program(function: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS[function.__name__] = function
    return function


def linear() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(4, 3)


def batch() -> torch.Tensor:
    return torch.arange(8.0).reshape(2, 4)


def trained(model: nn.Module) -> list[torch.Tensor]:
    y = model(batch())
    y.sum().backward()
    return [y, *(p.grad for p in model.parameters())]


@contextmanager
def process_group(**options: Any) -> Iterator[None]:
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1, **options)
    try:
        yield
    finally:
        dist.destroy_process_group()


@program
def data_parallel() -> Any:
    model = nn.DataParallel(linear())
    return trained(model), model.device_ids, model.state_dict()


@program
def data_parallel_function() -> Any:
    return nn.parallel.data_parallel(linear(), batch())


@program
def checkpoint_reentrant() -> Any:
    return trained(
        lambda_module(lambda model, x: checkpoint(model, x.requires_grad_(), use_reentrant=True))
    )


@program
def checkpoint_with_dropout() -> Any:
    return trained(
        lambda_module(
            lambda model, x: checkpoint(
                lambda x: torch.dropout(model(x), 0.5, True), x, use_reentrant=False
            )
        )
    )


@program
def checkpoint_without_tensors() -> Any:
    return trained(
        lambda_module(
            lambda model, x: checkpoint(lambda n: model(torch.ones(n, 4)), 2, use_reentrant=False)
        )
    )


def lambda_module(call: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> nn.Module:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = linear()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return call(self.model, x)

    return Wrapped()


@program
def pinning_loader() -> Any:
    """That its batches are pinned is not seen by a program, which computes on the CPU with them."""
    return [linear()(x) for (x,) in DataLoader(TensorDataset(batch()), pin_memory=True)]


@program
def pinning_loader_with_workers() -> Any:
    return [
        linear()(x) for (x,) in DataLoader(TensorDataset(batch()), pin_memory=True, num_workers=1)
    ]


@program
def forked_generator() -> Any:
    torch.manual_seed(0)
    with torch.random.fork_rng():
        inside = torch.rand(2)
    return inside, torch.rand(2), torch.rand(2, generator=torch.Generator().manual_seed(1))


@program
def flex_mask() -> Any:
    return flex.create_mask(lambda b, h, q, k: q >= k, None, None, 4, 4)


@program
def flex_block_mask() -> Any:
    q = torch.linspace(0, 1, 128 * 8).reshape(1, 1, 128, 8)
    mask = flex.create_block_mask(lambda b, h, q, k: q >= k, None, None, 128, 128)
    return flex.flex_attention(q, q, q, block_mask=mask)


@program
def flex_block_mask_in_a_graph() -> Any:
    create = torch.compile(flex.create_block_mask, backend="eager")
    return create(lambda b, h, q, k: q >= k, None, None, 128, 128).kv_num_blocks


@program
def after_a_compiled_function() -> Any:
    """Dynamo asks for the accelerator's stream, which must not count as use of the device."""
    x = torch.compile(lambda x: x.sin(), backend="aot_eager")(batch())
    return x, trained(nn.DataParallel(linear()))


@program
def autocast() -> Any:
    with torch.autocast("cpu"):
        return linear()(batch())


@program
def optimizers() -> Any:
    found = []
    for kind in (torch.optim.SGD, torch.optim.AdamW, torch.optim.NAdam):
        model = linear()
        optimizer = kind(model.parameters(), lr=0.1)
        trained(model)
        optimizer.step()
        found.append(model.weight)
    return found


@program
def saved_and_loaded() -> Any:
    with tempfile.NamedTemporaryFile() as file:
        torch.save(linear().state_dict(), file.name)
        return torch.load(file.name)


@program
def processes_of_torchrun() -> Any:
    from torch.distributed.run import determine_local_world_size

    return determine_local_world_size("auto")


@program
def default_process_group() -> Any:
    with process_group():
        x, objects = batch(), [None]
        dist.all_reduce(x)
        dist.all_gather_object(objects, {"a": 1})
        gathered = [torch.empty(2, 4)]
        dist.all_gather(gathered, x)
        dist.broadcast(x, 0)
        dist.barrier()
        return x, objects, gathered


@program
def distributed_data_parallel() -> Any:
    with process_group():
        return trained(nn.parallel.DistributedDataParallel(linear()))


@program
def fully_sharded() -> Any:
    from torch.distributed.fsdp import fully_shard

    with process_group(backend="gloo"):
        model = linear()
        fully_shard(model)
        y, *gradients = trained(model)
        return y, [gradient.full_tensor() for gradient in gradients]


@program
def device_mesh() -> Any:
    from torch.distributed.tensor import Shard, distribute_tensor

    with process_group(backend="gloo"):
        x = distribute_tensor(batch(), dist.init_device_mesh("cpu", (1,)), [Shard(0)])
        return (x @ x.T).full_tensor()


@program
def distributed_checkpoint() -> Any:
    import torch.distributed.checkpoint as dcp

    with tempfile.TemporaryDirectory() as folder:
        dcp.save({"x": batch()}, checkpoint_id=folder, no_dist=True)
        loaded = {"x": torch.zeros(2, 4)}
        dcp.load(loaded, checkpoint_id=folder, no_dist=True)
        return loaded


@program
def profiled() -> Any:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        batch() @ batch().T
    return sorted({event.key for event in profile.key_averages()})


def described(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return [value.device.type, str(value.dtype), value.requires_grad, value.tolist()]
    if isinstance(value, (list, tuple)):
        return [described(each) for each in value]
    if isinstance(value, dict):
        return {key: described(each) for key, each in value.items()}
    return value


def result(function: Callable[[], Any]) -> Any:
    try:
        return described(function())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump({name: result(function) for name, function in PROGRAMS.items()}, file)
