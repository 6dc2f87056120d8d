"""Traces whose order of operations depends on data are cut into common segments, with the same
results as uncut."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ftm_lazy import _C

pytestmark = pytest.mark.usefixtures("forgotten")

Tree = int | tuple["Tree", "Tree"]


def random_tree(rng: random.Random, depth: int) -> Tree:
    if depth == 0 or rng.random() < 0.3:
        return rng.randrange(8)
    return random_tree(rng, depth - 1), random_tree(rng, depth - 1)


class Recursive(nn.Module):
    """A vector for a tree: leaves are looked up, the rest is made of two vectors."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.both, self.top = nn.Embedding(8, 4), nn.Linear(8, 4), nn.Linear(4, 2)

    def vector(self, tree: Tree) -> Tensor:
        if isinstance(tree, int):
            return self.words.weight[tree].sin()
        return torch.tanh(self.both(torch.cat([self.vector(part) for part in tree])))

    def forward(self, tree: Tree) -> Tensor:
        return F.log_softmax(self.top(self.vector(tree)), dim=0)


def losses(device: str, trees: list[Tree]) -> list[float]:
    """Of training steps, one for each tree."""
    net = Recursive().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    found = []
    for tree in trees:
        optimizer.zero_grad()
        loss = -net(tree)[0]
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def trees(seed: int, count: int) -> list[Tree]:
    rng = random.Random(seed)
    return [(random_tree(rng, 3), random_tree(rng, 3)) for _ in range(count)]


def unrolled() -> int:
    return _C._counters().get("unrolled", 0)


@pytest.mark.parametrize("seed", range(4))
def test_steps_over_random_trees_are_those_of_the_cpu(seed: int) -> None:
    some, before = trees(seed, 30), unrolled()
    torch.testing.assert_close(losses("ftm", some), losses("cpu", some), rtol=1e-5, atol=1e-6)
    assert unrolled() - before >= 10, "no tree was cut"


def test_other_trees_need_few_programs() -> None:
    """Twice as many trees need less than a quarter more programs, instead of one for each."""
    some = trees(11, 200)
    losses("ftm", some[:100])
    before = _C._program_count()
    losses("ftm", some[100:])
    assert _C._program_count() < 1.25 * before


def test_a_setting_switches_it_off() -> None:
    _C._set_loop_length(0)
    before = unrolled()
    losses("ftm", trees(0, 20))
    assert unrolled() == before


VOCABULARY = (
    lambda x, y: (torch.tanh(x @ y.t() @ y), y * 0.5 + x),
    lambda x, y: (x - y.mean(), torch.softmax(x + y.flip(1), dim=1).exp()),
    lambda x, y: (torch.cat([x[1:], y[:1]]).sin(), x * 0.5 + y.sigmoid()),
    lambda x, y: (torch.where(x > y, x, y * 0.25).cos(), y.sub(x.mean()).clamp(-2, 2)),
    lambda x, y: (x.mul_(0.5).add_(y.tanh()), y.t().contiguous().t().clamp(-1, 1)),
    lambda x, y: (y[:, [3, 0, 1, 2]] + x, x.sum(0, keepdim=True).sigmoid() * y),
)
"""Operations on two matrices, chosen by a random text."""


def obeyed(device: str, text: list[int]) -> list[Tensor]:
    x, y = (torch.linspace(-1, 1, 12).reshape(3, 4).to(device) * scale for scale in (1, 3))
    kept = []
    for place, word in enumerate(text):
        x, y = VOCABULARY[word](x, y)
        if place % 5 == 4:
            kept.append(y.max(dim=1).values)
    return [tensor.cpu() for tensor in (x, y, *kept)]


@pytest.mark.parametrize("seed", range(6))
def test_random_texts_are_obeyed_as_on_the_cpu(seed: int) -> None:
    rng, before = random.Random(seed), unrolled()
    for _ in range(40):
        text = [rng.randrange(seed % 3, seed % 3 + 3) for _ in range(rng.randint(6, 20))]
        torch.testing.assert_close(obeyed("ftm", text), obeyed("cpu", text), rtol=1e-4, atol=1e-5)
    assert unrolled() - before >= 6, "no text was cut"


def test_a_training_step_and_its_evaluation_stay_whole() -> None:
    """Some traces of one model, each its own program: they are few, and run faster whole."""
    net = nn.Sequential(
        *(
            layer
            for width in (5, 6, 7, 8)
            for layer in (nn.Linear(width, width + 1), nn.Tanh(), nn.LayerNorm(width + 1))
        )
    )
    net = net.to("ftm")
    optimizer = torch.optim.AdamW(net.parameters())
    before = unrolled()
    for step in range(6):
        loss = net(torch.ones(3, 5).to("ftm")).square().mean()
        (loss / 2).backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
        loss.item()
        with torch.no_grad():
            net(torch.ones(3, 5).to("ftm")).sum().item()
    assert unrolled() == before
