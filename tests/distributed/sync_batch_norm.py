"""Trains layers of SyncBatchNorm on two processes, and compares with one process on the CPU.

The reference is BatchNorm over the batches of all processes. For each case, each process prints the
greatest difference of outputs, gradients and running statistics in two steps.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import ftm_lazy  # noqa: F401  (registers the device)

CASES: dict[str, tuple[tuple[int, int], tuple[int, ...], torch.dtype, dict[str, Any]]] = {
    "uneven": ((5, 2), (3, 4, 6), torch.float32, {}),
    "one_sample": ((1, 1), (4,), torch.float32, {"momentum": None}),
    "empty": ((3, 0), (4, 5), torch.float32, {}),
    "not_affine": ((2, 3), (3, 4, 4), torch.float32, {"affine": False}),
    "bfloat16": ((4, 2), (3, 4, 4), torch.bfloat16, {"track_running_stats": False}),
}
"""Samples of each process, shape and dtype of a sample, and the arguments of the layer."""


def _difference(one: torch.Tensor, other: torch.Tensor) -> float:
    assert one.shape == other.shape
    return max((one.detach().cpu().double() - other.double()).abs().flatten().tolist(), default=0)


def _worst(
    counts: tuple[int, int], sizes: tuple[int, ...], dtype: torch.dtype, arguments: dict[str, Any]
) -> float:
    rank, device = dist.get_rank(), torch.device("ftm", int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    kind = torch.nn.BatchNorm2d if len(sizes) == 3 else torch.nn.BatchNorm1d
    reference = kind(sizes[0], **arguments)
    model = torch.nn.SyncBatchNorm(sizes[0], **arguments).to(device)
    trained = DistributedDataParallel(model) if [*model.parameters()] else model
    for parameter, copy in zip(reference.parameters(), model.parameters(), strict=True):
        torch.nn.init.normal_(parameter)
        copy.data.copy_(parameter.data)
    worst = 0.0
    for _ in range(2):
        parts = [torch.randn(count, *sizes).mul(2).add(3).to(dtype) for count in counts]
        weights = [torch.randn(part.shape) for part in parts]
        whole = torch.cat(parts).float().requires_grad_()
        own = parts[rank].to(device).requires_grad_()
        expected, result = reference(whole), trained(own)
        (expected * torch.cat(weights)).sum().backward()
        (result * weights[rank].to(device)).sum().backward()
        assert whole.grad is not None and result.dtype == dtype
        pairs = [
            (result, expected.detach().split(counts)[rank]),
            *zip(model.buffers(), reference.buffers(), strict=True),
        ]
        if counts[rank]:  # otherwise it has no gradient
            assert own.grad is not None and own.grad.dtype == dtype
            pairs.append((own.grad, whole.grad.split(counts)[rank]))
        for copy, parameter in zip(model.parameters(), reference.parameters(), strict=True):
            assert copy.grad is not None and parameter.grad is not None
            pairs.append((copy.grad, parameter.grad / len(counts)))  # DDP's are averages
            copy.grad = parameter.grad = None
        worst = max(worst, *(_difference(*pair) for pair in pairs))
    if trained is not model:
        assert trained._get_ddp_logging_data()["avg_forward_compute_time"] > 0
    return worst


dist.init_process_group()
with warnings.catch_warnings():
    warnings.simplefilter("error")
    for case, of_case in CASES.items():
        print(f"{dist.get_rank()} {case} {_worst(*of_case)}\n", end="", flush=True)
dist.destroy_process_group()
