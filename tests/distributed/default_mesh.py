"""Shards a model on ``meta`` without a mesh, after choosing the device in the given way."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


def main() -> None:
    """Print the device type of the mesh, of the parameters, and two losses."""
    way, rank = sys.argv[1], int(os.environ["LOCAL_RANK"])
    if way == "set_device_index":
        torch.accelerator.set_device_index(rank)
        dist.init_process_group()
    elif way == "set_device":
        torch.ftm.set_device(rank)
        dist.init_process_group()
    elif way == "device_id":
        dist.init_process_group(device_id=torch.device("ftm", rank))
    else:
        dist.init_process_group(None if way == "none" else way)
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    fully_shard(model)
    mesh = model[0].weight.device_mesh.device_type
    model.to_empty(device=mesh)
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
    losses = []
    for _ in range(2):
        loss = model(torch.ones(1, 4, device=mesh)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    print(rank, mesh, model[0].weight.to_local().device.type, *losses)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
