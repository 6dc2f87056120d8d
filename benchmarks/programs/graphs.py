"""Graphs: sampled neighbourhoods, whose sizes vary with each batch."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .steps import minimize

__all__ = ["PROGRAMS"]

NODES, FEATURES, CLASSES = 2000, 32, 7


class Sage(nn.Module):
    """One layer: a node's own features and the mean of its neighbours'."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.own, self.others = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        sums = x.new_zeros(x.size(0), x.size(1)).index_add_(0, edges[1], x[edges[0]])
        counts = (
            x.new_zeros(x.size(0))
            .index_add_(0, edges[1], torch.ones_like(edges[1], dtype=x.dtype))
            .clamp_(min=1)
        )
        return self.own(x) + self.others(sums / counts[:, None])


def neighbours(device: str) -> Callable[[], Tensor]:
    """24 steps of GraphSAGE on sampled neighbourhoods of 32 nodes: nodes and edges differ in number
    each time."""
    layers = nn.ModuleList([Sage(FEATURES, 64), Sage(64, CLASSES)]).to(device)
    optimizer = torch.optim.Adam(layers.parameters(), lr=1e-2)
    features, labels = torch.randn(NODES, FEATURES), torch.randint(CLASSES, (NODES,))
    sources = torch.randint(NODES, (NODES, 8))

    def sample(seeds: Tensor) -> tuple[Tensor, Tensor]:
        nodes, edges = seeds, []
        for fan in (8, 4):
            near = sources[nodes][:, :fan]
            edges.append(torch.stack((near.flatten(), nodes.repeat_interleave(fan))))
            nodes = torch.cat((nodes, near.flatten())).unique()
        nodes = torch.cat((seeds, nodes[~torch.isin(nodes, seeds)]))
        place = torch.zeros(NODES, dtype=torch.long)
        place[nodes] = torch.arange(len(nodes))
        return nodes, place[torch.cat(edges, dim=1).unique(dim=1)]

    def run() -> Tensor:
        for _ in range(24):
            seeds = torch.randperm(NODES)[:32]
            nodes, edges = sample(seeds)
            x, edges, targets = (
                features[nodes].to(device),
                edges.to(device),
                labels[seeds].to(device),
            )
            x = F.relu(layers[0](x, edges))
            loss = F.cross_entropy(layers[1](x, edges)[:32], targets)
            minimize(optimizer, loss)
            loss.item()
        return loss

    return run


PROGRAMS = {"neighbours": neighbours}
