"""Training with parameters that are sharded over several processes (FSDP2).

    torchrun --standalone --nproc-per-node 2 examples/fsdp.py

``--device cpu`` trains the same model with gloo on the CPU, for comparison.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


def main() -> None:
    """Train a small transformer, and print the last loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="ftm")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()

    local_rank = int(os.environ["LOCAL_RANK"])
    if options.device == "cpu":
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    else:
        device = torch.device(options.device, local_rank)
        torch.accelerator.set_device_index(local_rank)
        dist.init_process_group(options.device, device_id=device)
    rank, size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True) for _ in range(2)]
    model = nn.Sequential(nn.Embedding(64, 32), *layers, nn.Linear(32, 64)).to(device)
    mesh = dist.init_device_mesh(device.type, (size,))
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.Generator().manual_seed(rank)
    tokens = torch.randint(64, (4, 17), generator=data).to(device)
    loss = torch.zeros(())
    for _ in range(options.steps):
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
    loss = loss.detach()
    dist.all_reduce(loss)
    if rank == 0:
        print(f"mean loss after {options.steps} steps: {loss.item() / size:.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
