"""Data-parallel training on several processes.

Run it with torchrun; each process trains on its share of the data:

    torchrun --standalone --nproc-per-node 2 examples/ddp.py

``--device cpu`` trains the same model with gloo on the CPU, for comparison.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Train a small convolutional network, and print the last loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="ftm")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()

    local_rank = int(os.environ["LOCAL_RANK"])
    if options.device == "cpu":
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    else:
        device = torch.device(options.device, local_rank)
        torch.accelerator.set_device_index(local_rank)
        dist.init_process_group(options.device, device_id=device)
    rank = dist.get_rank()

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10)
    )
    model = DistributedDataParallel(model.to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = torch.Generator().manual_seed(rank)
    images = torch.randn(32, 1, 8, 8, generator=data).to(device)
    labels = torch.randint(10, (32,), generator=data).to(device)
    loss = torch.zeros(())
    for _ in range(options.steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    loss = loss.detach()
    dist.all_reduce(loss)
    if rank == 0:
        print(f"mean loss after {options.steps} steps: {loss.item() / dist.get_world_size():.5f}")
    # On the CPU, a thread of gloo needs the GIL to drop the last collective's tensors, and would
    # wait for it forever while the group is destroyed. It gets the GIL during the barrier.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
