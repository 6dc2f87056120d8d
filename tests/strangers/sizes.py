"""Campaign ``sizes``: random programs that run again for inputs of other sizes.

The first sizes often compile a dynamic-shape program, which serves the others too. A program that
does not compile, or that the machine stops, counts as a failure although its results are right.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

os.environ["FTM_CACHE_DIR"] = "off"

import campaign
import torch
import torch.nn.functional as F
from torch import Tensor

from ftm_lazy import metrics

WIDTH = 6
SMALL = (1, 2, 3, 5, 7, 8, 16, 17, 31, 33, 64, 65, 100, 128, 200, 257)
LARGE = (1000, 1024, 4097, 20_000, 65_536, 65_537, 70_000, 100_000, 131_071, 200_000)
RUNS = 5
TOLERANCE = 1e-4
"""Largest difference from the result in float64, as a part of its largest element; or four times that
of the CPU's result, if that is larger."""

WRONG = "compile_failures", "op_by_op_runs", "fault_replays"

Step = Callable[..., Tensor]

ROW: dict[str, Step] = {
    "tanh": torch.tanh,
    "scaled": lambda x: x * 1.5 - 0.25,
    "exp": lambda x: x.clamp(-3, 3).exp(),
    "running mean": lambda x: x.cumsum(0) / torch.arange(1, len(x) + 1, device=x.device),
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(2, 0),
    "centered": lambda x: x - x.mean(0),
    "of the largest": lambda x: x / (1 + x.abs().amax(0)),
    "halves exchanged": lambda x: torch.cat([x[len(x) // 2 :], x[: len(x) // 2]]),
    "shifted": lambda x: torch.cat([x[:1], x[:-1]]),
    "padded": lambda x: F.pad(x, (0, 0) * (x.dim() - 1) + (1, 2))[1:-2],
    "every second": lambda x: x.repeat_interleave(2, 0)[::2],
    "last written": lambda x: torch.cat([x[:-1], x[-1:] * 2]),
    "masked": lambda x: (
        x.movedim(0, -1)
        .masked_fill(torch.arange(len(x), device=x.device) % 3 == 0, 0.5)
        .movedim(-1, 0)
    ),
    "pairs added": lambda x: torch.zeros_like(x).index_add(
        0, torch.arange(len(x), device=x.device) // 2, x
    ),
    "gathered": lambda x: x[torch.arange(len(x), device=x.device) * 7 % len(x)],
}
"""Functions of (n) or of (n, WIDTH) that keep the shape."""

GRID: dict[str, Step] = {
    "softmax of rows": lambda x: x.softmax(1),
    "softmax of columns": lambda x: x.softmax(0),
    "layer norm": lambda x: F.layer_norm(x, (WIDTH,)),
    "column sums of rows": lambda x: x.cumsum(1) / WIDTH,
    "across rows": lambda x: x.t().reshape(len(x), WIDTH),
    "flat": lambda x: (x.reshape(-1).cumsum(0) / x.numel()).reshape(x.shape),
    "convolved": lambda x: F.conv1d(
        x.t()[None], torch.linspace(-1, 1, WIDTH * WIDTH * 3, device=x.device).view(WIDTH, WIDTH, 3),
        padding=1,
    )[0].t(),
    "pooled": lambda x: F.avg_pool1d(x.t()[None], 3, 1, 1)[0].t(),
    "normalized": lambda x: F.batch_norm(x, None, None, training=True) if len(x) > 1 else x,
    "mixed": lambda x: x @ torch.linspace(-0.3, 0.3, WIDTH * WIDTH, device=x.device).view(WIDTH, WIDTH),
}  # fmt: skip

TO_ROW: dict[str, Step] = {
    "sums": lambda x: x.sum(1),
    "maxima": lambda x: x.amax(1),
    "norms": lambda x: (x.square().sum(1) + 1).sqrt(),
    "a column": lambda x: x[:, 2],
    "times a vector": lambda x: x @ torch.linspace(-1, 1, WIDTH, device=x.device),
    "deviations": lambda x: (x.var(1) + 0.1).sqrt(),
}


def _order(x: Tensor) -> Tensor:
    return x.argsort(dim=0, stable=True)


ORDER: dict[str, Step] = {
    "sorted": lambda x: x.sort(dim=0, stable=True)[0],
    "descending": lambda x: x.sort(dim=0, descending=True, stable=True)[0],
    "ranks": lambda x: _order(_order(x)) / len(x),
    "by the order": lambda x: x.gather(0, _order(x)),
    "largest first": lambda x: torch.cat([x.detach().topk(1, 0)[0], x[1:]]),
    "found": lambda x: (
        torch.searchsorted(x.sort(0)[0].t().contiguous(), x.t().contiguous()).t().to(x.dtype)
        / len(x)
    ),
    "above the median": lambda x: x - x.detach().median(0)[0],
}
"""Functions of inputs alone: rounding changes the order of what is computed. Equal elements keep their
order, so that a gradient goes to one of them."""

SQUARE: dict[str, Step] = {
    "weights": lambda s: s.softmax(-1),
    "lower triangle": lambda s: s.tril(),
    "transposed": lambda s: s.t(),
    "with a diagonal": lambda s: s + torch.eye(len(s), device=s.device),
    "scaled": lambda s: s / (1 + s.abs().amax()),
}

JOINT: dict[tuple[str, str, str], Step] = {
    ("row", "row", "row"): lambda a, b: a * b,
    ("grid", "row", "grid"): lambda x, a: x * a[:, None],
    ("grid", "grid", "grid"): lambda x, y: torch.where(x > 0, x, y) + y,
    ("row", "row", "square"): lambda a, b: (a[:, None] - b).tanh(),
    ("grid", "grid", "square"): lambda x, y: x @ y.t() / WIDTH,
    ("square", "grid", "grid"): lambda s, x: s @ x / len(x),
    ("square", "row", "row"): lambda s, a: s @ a / len(a),
}


@dataclass
class Program:
    """Steps: a function, and the numbers of the values that it takes. The first three values are the
    inputs: (n), (n, WIDTH) and (n, WIDTH)."""

    random: Random
    kinds: list[str] = field(default_factory=lambda: ["row", "grid", "grid"])
    names: list[str] = field(default_factory=list)
    steps: list[tuple[Step, tuple[int, ...]]] = field(default_factory=list)

    def grow(self) -> None:
        """Appends a step that takes late values more often than early ones."""
        number = max(self.random.randrange(len(self.kinds)) for _ in range(2))
        kind = self.kinds[number]
        if self.random.random() < 0.4:
            choices = [
                (kinds, step) for kinds, step in JOINT.items()
                if kinds[0] == kind and kinds[1] in self.kinds
            ]  # fmt: skip
            (_, second, made), step = self.random.choice(choices)
            others = [k for k, other in enumerate(self.kinds) if other == second]
            self._add(f"{kind} and {second}", made, step, number, self.random.choice(others))
            return
        table = SQUARE if kind == "square" else ROW | (GRID | TO_ROW if kind == "grid" else {})
        if number < 3 and self.random.random() < 0.3:
            table = ORDER if kind == "grid" else {k: ORDER[k] for k in ("sorted", "ranks")}
        name = self.random.choice(list(table))
        self._add(name, "row" if name in TO_ROW else kind, table[name], number)

    def _add(self, name: str, made: str, step: Step, *numbers: int) -> None:
        self.names.append(f"%{len(self.kinds)} = {name} of {numbers}")
        self.kinds.append(made)
        self.steps.append((step, numbers))

    def run(self, inputs: list[Tensor], device: str) -> list[Tensor]:
        """The last results, and the gradients of the inputs."""
        leaves = [x.to(device).requires_grad_() for x in inputs]
        values = list(leaves)
        for step, numbers in self.steps:
            values.append(step(*(values[n] for n in numbers)))
        results = values[3:][-2:]
        gradients = torch.autograd.grad(
            torch.stack([r.square().mean() for r in results]).sum(), leaves, allow_unused=True
        )
        return [*results, *(g for g in gradients if g is not None)]


def _error(exact: Tensor, found: Tensor) -> float:
    return (exact - found.double()).abs().max().item()


def check(random: Random) -> str | None:
    """One program, at `RUNS` sizes."""
    program = Program(random)
    for _ in range(random.randint(2, 7)):
        program.grow()
    large = "square" not in program.kinds and random.random() < 0.5
    for n in random.sample(LARGE if large else SMALL, RUNS):
        generator = torch.Generator().manual_seed(random.randrange(1 << 30))
        inputs = [
            torch.randn(shape, generator=generator) for shape in ((n,), (n, WIDTH), (n, WIDTH))
        ]
        try:
            exact = program.run([x.double() for x in inputs], "cpu")
            expected = program.run(inputs, "cpu")
        except (RuntimeError, ValueError):
            continue  # eager refuses it
        before = metrics.counters()
        found = [result.cpu() for result in program.run(inputs, "ftm")]
        after = metrics.counters()
        wrong = [name for name in WRONG if after[name] != before[name]]
        for number, (a, b, c) in enumerate(zip(exact, expected, found, strict=True)):
            allowed = max(TOLERANCE * a.abs().max().item(), 4 * _error(a, b), 1e-7)
            if b.shape != c.shape or not _error(a, c) <= allowed:
                wrong.append(f"result {number}")
        if wrong:
            return "\n".join([*program.names, f"n = {n}: {', '.join(wrong)}"])
    return None


if __name__ == "__main__":
    campaign.main("sizes", check, count=3000)
