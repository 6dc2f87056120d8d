"""Data parallelism with explicit collectives: `all_reduce` of gradients, `mesh_reduce` of losses.

    python -m ftm_lazy.torch_xla examples/torch_xla_programs/data_parallel.py --processes 2

Each process has a part of the batch. The losses do not depend on the number of processes.
"""

import argparse
import json

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.xla_multiprocessing as xmp
import torch_xla.runtime as xr
from torch import nn


def batch(step, size):
    """Points [size, 8] and a function of them [size, 1]."""
    x = torch.randn(size, 8, generator=torch.Generator().manual_seed(step))
    return x, x[:, :1].sin() * x[:, 1:2] + 0.5 * x[:, 2:3]


def train(index, flags):
    """The main function of each process."""
    device = torch_xla.device()
    rank, world = xr.global_ordinal(), xr.world_size()
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=flags.lr)
    losses = []
    for step in range(flags.steps):
        x, y = (part[rank::world].to(device) for part in batch(step, flags.batch_size))
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        xm.all_reduce(xm.REDUCE_SUM, gradients, scale=1.0 / world)
        optimizer.step()
        torch_xla.sync()
        losses.append(xm.mesh_reduce("loss", loss.item(), lambda each: sum(each) / len(each)))
        if step % flags.log_steps == 0:
            xm.master_print(f"step {step:4d}  loss {losses[-1]:.4f}")
    xm.rendezvous("trained")
    if flags.losses and xm.is_master_ordinal():
        with open(flags.losses, "w") as file:
            json.dump(losses, file)


def parse():
    """The command line."""
    parser = argparse.ArgumentParser(description="Data parallel by hand.")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=32, help="of all processes together")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--log-steps", type=int, default=10)
    parser.add_argument("--losses", help="file for the loss of each step, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    flags = parse()
    xmp.spawn(train, args=(flags,), nprocs=flags.processes)
