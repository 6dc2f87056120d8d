"""Compares attention on DTensors with that of one process in float64: results and gradients.

``torchrun --nproc-per-node 2 context_parallel.py`` prints, for each case, the largest difference
relative to the largest value, and the number of programs of a repeated step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import (
    _cp_options,
    context_parallel_unshard,
    set_rotate_method,
)

import ftm_lazy

SHAPE = (2, 4, 16, 8)
"""Batch, heads, length, width of a head."""
SEQUENCE = 2
"""The dimension that context parallelism shards."""

Inputs = list[torch.Tensor]


def attended(inputs: Inputs, **options: Any) -> Inputs:
    """Return attention's result, and the gradients of query, key and value."""
    *operands, weights = inputs
    leaves = [operand.detach().clone().requires_grad_() for operand in operands]
    result = F.scaled_dot_product_attention(*leaves, **options)
    (result * weights).sum().backward()
    return [result.detach(), *(leaf.grad for leaf in leaves)]


def over_sequence(mesh: DeviceMesh, inputs: Inputs, is_causal: bool) -> Inputs:
    """Shard the sequence. Each process then has two parts of it if attention is causal."""
    _cp_options.enable_load_balance = is_causal
    inputs = [operand.clone() for operand in inputs]  # `context_parallel` resizes them
    dims = [SEQUENCE] * len(inputs)
    with context_parallel(mesh, buffers=inputs, buffer_seq_dims=dims):
        shards = attended(inputs, is_causal=is_causal)
    return context_parallel_unshard(mesh, shards, dims)


def over_heads(mesh: DeviceMesh, inputs: Inputs, **options: Any) -> Inputs:
    """Shard the heads, as tensor parallelism does."""
    shards = [distribute_tensor(operand, mesh, [Shard(1)]) for operand in inputs]
    if "attn_mask" in options:
        options["attn_mask"] = DTensor.from_local(options["attn_mask"], mesh)
    return [result.full_tensor() for result in attended(shards, **options)]


def main() -> None:
    """Run all cases."""
    dist.init_process_group("ftm")
    rank = dist.get_rank()
    torch.ftm.set_device(rank)
    mesh = dist.init_device_mesh("ftm", (dist.get_world_size(),))
    torch.manual_seed(0)
    exact = [torch.randn(SHAPE, dtype=torch.float64) for _ in range(4)]
    mask = torch.randn(SHAPE[2], SHAPE[2], dtype=torch.float64)
    mask[3] = -torch.inf
    lines = []

    def run(name: str, call: Callable[..., Inputs], dtype: torch.dtype, **options: Any) -> None:
        inputs = [operand.to("ftm", dtype) for operand in exact]
        on_device = {k: v.to("ftm", dtype) if k == "attn_mask" else v for k, v in options.items()}
        for _ in range(2):  # the second time, it is compiled and all groups exist
            torch.ftm.synchronize()
            before = ftm_lazy.metrics.counters()["executions"]
            found = call(mesh, inputs, **on_device)
            torch.ftm.synchronize()
            programs = ftm_lazy.metrics.counters()["executions"] - before
        expected = attended([operand.to(dtype).double() for operand in exact], **options)
        worst = max(
            ((a.cpu().double() - b).abs().max() / b.abs().max()).item()
            for a, b in zip(found, expected, strict=True)
        )
        lines.append(f"{rank} {name} {str(dtype)[6:]} {worst:.1e} {programs}")

    for dtype in (torch.float32, torch.bfloat16):
        for method in ("allgather", "alltoall"):
            set_rotate_method(method)
            for is_causal in (True, False):
                name = f"{method}-{'causal' if is_causal else 'full'}"
                run(name, over_sequence, dtype, is_causal=is_causal)
        run("heads-causal", over_heads, dtype, is_causal=True)
        run("heads-mask", over_heads, dtype, attn_mask=mask)
    print("\n".join(lines) + "\n", end="", flush=True)
    dist.destroy_process_group()


main()
