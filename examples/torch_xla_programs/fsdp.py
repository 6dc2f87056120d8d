"""Sharded parameters (`XlaFullyShardedDataParallel`) with checkpoints.

    export CPU_NUM_DEVICES=2
    python -m ftm_lazy.torch_xla examples/torch_xla_programs/fsdp.py --directory /tmp/fsdp

After half of the steps each process saves its shard, and continues with a new model and optimizer
that load it. At the end the shards are consolidated. ``--whole`` trains the same model unsharded.
"""

import argparse
import functools
import json
import os

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr
from torch import nn
from torch.nn import functional as F
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP
from torch_xla.distributed.fsdp import consolidate_sharded_model_checkpoints
from torch_xla.distributed.fsdp.wrap import transformer_auto_wrap_policy

CLASSES = 8


class Block(nn.Module):
    """A residual pair of linear layers."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = (
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def build(flags, device):
    """The model and its optimizer."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(16, flags.width),
        Block(flags.width),
        Block(flags.width),
        nn.Linear(flags.width, CLASSES),
    )
    if flags.whole:
        model = model.to(device)
    else:
        policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
        model = FSDP(model, auto_wrap_policy=policy)
    return model, torch.optim.AdamW(model.parameters(), lr=flags.lr)


def batch(step, size):
    """Points [size, 16] and the class of each."""
    x = torch.randn(size, 16, generator=torch.Generator().manual_seed(step))
    return x, x[:, :CLASSES].argmax(1)


def train(index, flags):
    """The main function of each process."""
    device = torch_xla.device()
    rank, world = xr.global_ordinal(), xr.world_size()
    model, optimizer = build(flags, device)
    prefix = os.path.join(flags.directory, "model")
    file = f"{prefix}_rank-{rank}-of-{world}.pth"
    losses = []
    for step in range(flags.steps):
        if step == flags.steps // 2 and not flags.whole:
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "shard_metadata": model.get_shard_metadata(),
            }
            xm.save(state, file, master_only=False)
            xm.rendezvous("saved")
            model, optimizer = build(flags, device)
            state = torch.load(file, weights_only=False)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
        x, y = (part[rank::world].to(device) for part in batch(step, flags.batch_size))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(xm.mesh_reduce("loss", loss.item(), lambda each: sum(each) / len(each)))
        if step % flags.log_steps == 0:
            xm.master_print(f"step {step:4d}  loss {losses[-1]:.4f}")
    if not flags.whole:
        state = {"model": model.state_dict(), "shard_metadata": model.get_shard_metadata()}
        xm.save(state, file, master_only=False)
        xm.rendezvous("saved at the end")
        if xm.is_master_ordinal():
            check(*consolidate_sharded_model_checkpoints(prefix, "_rank-*-of-*.pth"), flags)
    if flags.losses and xm.is_master_ordinal():
        with open(flags.losses, "w") as opened:
            json.dump(losses, opened)


def check(parameters, path, flags):
    """Loads what was consolidated into an ordinary model on the CPU, and says how well it does."""
    model = nn.Sequential(
        nn.Linear(16, flags.width),
        Block(flags.width),
        Block(flags.width),
        nn.Linear(flags.width, CLASSES),
    )
    model.load_state_dict(parameters)
    x, y = batch(10**6, 512)
    accuracy = (model(x).argmax(1) == y).float().mean()
    print(f"{os.path.basename(path)}: held-out accuracy {accuracy:.2%}")


def parse():
    """The command line."""
    parser = argparse.ArgumentParser(description="Parameters divided among processes.")
    parser.add_argument("--directory", default=".", help="where checkpoints go")
    parser.add_argument("--whole", action="store_true", help="do not divide the parameters")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=32, help="of all processes together")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--log-steps", type=int, default=10)
    parser.add_argument("--losses", help="file for the loss of each step, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    torch_xla.launch(train, args=(parse(),))
