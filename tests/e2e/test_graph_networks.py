"""Graph networks by message passing, in the calls that PyTorch Geometric's GCNConv, GATConv and
SAGEConv are made of: losses and predictions as on the CPU, nothing on the CPU but what a mask's
count has to wait for."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import ftm_lazy
from e2e.counting import fallbacks

NODES, FEATURES, CLASSES = 40, 8, 3


def _sum_by(values: Tensor, index: Tensor, count: int) -> Tensor:
    place = index.view(-1, *[1] * (values.dim() - 1)).expand_as(values)
    return values.new_zeros(count, *values.shape[1:]).scatter_add_(0, place, values)


def _with_loops(edges: Tensor) -> Tensor:
    """Each node once to itself: the loops that are there are taken out first, by a mask."""
    loops = torch.arange(NODES, device=edges.device).repeat(2, 1)
    return torch.cat([edges[:, edges[0] != edges[1]], loops], 1)


class GCN(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear, self.bias = (
            nn.Linear(inputs, outputs, bias=False),
            nn.Parameter(torch.zeros(outputs)),
        )

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = _with_loops(edges)
        degree = _sum_by(torch.ones_like(target, dtype=x.dtype), target, NODES)
        scale = degree.pow(-0.5).masked_fill(degree == 0, 0.0)
        weight = scale[source] * scale[target]
        return (
            _sum_by(self.linear(x).index_select(0, source) * weight.view(-1, 1), target, NODES)
            + self.bias
        )


class GAT(nn.Module):
    def __init__(self, inputs: int, outputs: int, heads: int = 2) -> None:
        super().__init__()
        self.linear, self.heads = nn.Linear(inputs, heads * outputs, bias=False), heads
        self.to_source, self.to_target = (
            nn.Parameter(torch.randn(1, heads, outputs)) for _ in range(2)
        )

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = _with_loops(edges)
        x = self.linear(x).view(NODES, self.heads, -1)
        scores = F.leaky_relu(
            (x * self.to_source).sum(-1)[source] + (x * self.to_target).sum(-1)[target], 0.2
        )
        place = target.view(-1, 1).expand_as(scores)
        most = scores.new_zeros(NODES, self.heads).scatter_reduce_(
            0, place, scores.detach(), "amax", include_self=False
        )
        parts = (scores - most.index_select(0, target)).exp()
        attention = parts / (_sum_by(parts, target, NODES) + 1e-16).index_select(0, target)
        return _sum_by(x.index_select(0, source) * attention.unsqueeze(-1), target, NODES).mean(1)


class SAGE(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.near, self.own = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        place = target.view(-1, 1).expand(-1, x.shape[1])
        mean = x.new_zeros(NODES, x.shape[1]).scatter_reduce_(
            0, place, x.index_select(0, source), "mean", include_self=False
        )
        return self.near(mean) + self.own(x)


def _trained(layer: type[nn.Module], device: str) -> tuple[list[float], list[int]]:
    torch.manual_seed(0)
    x, labels = torch.randn(NODES, FEATURES).to(device), torch.randint(CLASSES, (NODES,)).to(device)
    edges, train = torch.randint(NODES, (2, 150)).to(device), (torch.rand(NODES) < 0.5).to(device)
    first, second = layer(FEATURES, 16).to(device), layer(16, CLASSES).to(device)
    optimizer = torch.optim.Adam(
        [*first.parameters(), *second.parameters()], 0.01, weight_decay=5e-4
    )
    losses, right = [], []
    for _ in range(3):
        scores = second(first(x, edges).relu(), edges)
        loss = F.cross_entropy(scores[train], labels[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        right.append(int((scores.argmax(1)[~train] == labels[~train]).sum()))
    return losses, right


@pytest.mark.parametrize("layer", [GCN, GAT, SAGE])
def test_training(layer: type[nn.Module]) -> None:
    expected, right = _trained(layer, "cpu")
    before = ftm_lazy.metrics.counters()
    assert _trained(layer, "ftm") == (pytest.approx(expected, rel=1e-5), right)
    counters = ftm_lazy.metrics.counters()
    waits = {
        name: n - before.get(name, 0)
        for name, n in counters.items()
        if name.startswith("sync::") and n != before.get(name, 0)
    }
    assert not fallbacks(counters) and set(waits) <= {"sync::aten::index.Tensor"}
    assert counters["op_by_op_runs"] == before.get("op_by_op_runs", 0)
