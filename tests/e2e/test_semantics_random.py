"""Random short programs: on the machine as on the CPU in values, dtype, shape and strides."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

BATCHES = 12
PROGRAMS_IN_A_BATCH = 10  # observed together: one compilation for all of them

UNARY: list[Callable[[Tensor], Tensor]] = [
    torch.neg, torch.abs, torch.sin, torch.tanh, torch.relu, torch.sigmoid, torch.floor, torch.square, torch.sign,
    lambda x: x.exp().clamp(max=50), lambda x: x.abs().sqrt(), lambda x: x.abs().log1p(), lambda x: x * 1.5,
    lambda x: x.clamp(-1, 2), lambda x: x > 0, lambda x: x.long(), lambda x: x.double(), lambda x: x.half(),
    lambda x: x == 1, lambda x: x + 3, lambda x: 1 - x.float(), lambda x: torch.nn.functional.gelu(x.float()),
]  # fmt: skip
BINARY: list[Callable[[Tensor, Tensor], Tensor]] = [
    torch.add, torch.mul, torch.maximum, torch.minimum, torch.less, torch.ge, torch.eq, torch.atan2,
    lambda x, y: torch.sub(x.float(), y), lambda x, y: x / (y.float().abs() + 1), lambda x, y: torch.where(x > y, x, y),
    lambda x, y: torch.logical_xor(x, y), lambda x, y: torch.addcmul(x.float(), x.float(), y.float(), value=0.5),
]  # fmt: skip
SHAPED: list[Callable[[Tensor, random.Random], Tensor]] = [
    lambda x, r: x.t(),
    lambda x, r: x[r.randrange(x.shape[0]) :],
    lambda x, r: x[:, :: r.choice([1, 2])],
    lambda x, r: x.reshape(-1, r.choice([d for d in (1, 2, 3) if x.numel() % d == 0])),
    lambda x, r: x.flip(r.choice([0, 1])),
    lambda x, r: x.roll(1, r.choice([0, 1])),
    lambda x, r: torch.cat([x, x + x], r.choice([0, 1])),
    lambda x, r: x[:1].expand(3, x.shape[1]),
    lambda x, r: x.sum(r.choice([0, 1]), keepdim=True),
    lambda x, r: x.amax(r.choice([0, 1]), keepdim=True),
    lambda x, r: x.float().mean(r.choice([0, 1]), keepdim=True),
    lambda x, r: x.float().softmax(r.choice([0, 1])),
    lambda x, r: x.float().cumsum(r.choice([0, 1])),
    lambda x, r: x.float() @ x.float().t(),
    lambda x, r: x.float().tril(r.choice([-1, 0, 1])),
    lambda x, r: torch.nn.functional.pad(x, (1, 0, 0, 2)),
    lambda x, r: x.argmax(1, keepdim=True) if x.dtype != torch.bool else x,
    lambda x, r: x.repeat(2, 1),
    lambda x, r: torch.stack([x[0], x[-1]]),
    lambda x, r: x.index_select(0, torch.tensor([x.shape[0] - 1, 0]).to(x.device)),
    lambda x, r: x.gather(1, torch.zeros(x.shape[0], 2, dtype=torch.int64).to(x.device)),
    lambda x, r: x.diagonal().unsqueeze(1),
    lambda x, r: x.contiguous().as_strided((2, 2), (1, 1)) if x.numel() > 3 else x,
]
WRITTEN: list[Callable[[Tensor, Tensor], object]] = [
    lambda x, y: x.t().mul_(2),
    lambda x, y: x[:1].fill_(3),
    lambda x, y: x[-1].copy_(x[0]),
    lambda x, y: x[:, -1:].add_(x[:, :1].clone()),
    lambda x, y: x.masked_fill_(x > 1, 1),
    lambda x, y: x.diagonal().zero_(),
    lambda x, y: x[:1].copy_(y[:1, :1]),
    lambda x, y: x.data.neg_() if x.dtype != torch.bool else x,
]


def run(seed: int, put: Callable[[Tensor], Tensor]) -> tuple[list[Tensor], list[str]]:
    """Every tensor of the random program `seed`, views and what they were taken from alike; the
    errors it met."""
    choice, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    shape = choice.choice([(3, 4), (1, 1), (5, 2), (7, 33), (1, 6), (16, 16)])
    dtype = choice.choice([torch.float32, torch.float32, torch.float64, torch.int64, torch.int32])
    values = [put((torch.randn(shape, generator=generator) * 3).to(dtype)) for _ in range(2)]
    refusals: list[str] = []
    for _ in range(choice.randint(3, 8)):
        kind, x, y = choice.random(), choice.choice(values), choice.choice(values)
        if min(*x.shape, *y.shape) == 0:
            continue
        if kind < 0.3:
            result = choice.choice(UNARY)(x.int() if x.dtype == torch.bool else x)
        elif kind < 0.5:
            result = choice.choice(BINARY)(x, y if y.shape == x.shape else x[:1])
        elif kind < 0.8:
            result = choice.choice(SHAPED)(x, choice)
        else:
            operation = choice.choice(WRITTEN)
            if x.dtype == torch.bool:
                continue
            try:
                operation(x, y)
            except RuntimeError as error:  # eager refuses to write where places overlap: so must we
                refusals.append(str(error))
            continue
        if result.numel() < 2000:
            values.append(result)
    return values, refusals


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_like_the_cpu(batch: int) -> None:
    seeds = range(batch * PROGRAMS_IN_A_BATCH, (batch + 1) * PROGRAMS_IN_A_BATCH)
    on_machine = {seed: run(seed, lambda tensor: tensor.to("ftm")) for seed in seeds}
    for seed in seeds:
        actual, refused = on_machine[seed]
        expected, refused_by_eager = run(seed, torch.clone)
        assert refused == refused_by_eager, f"seed {seed}"
        for index, (mine, theirs) in enumerate(zip(actual, expected, strict=True)):
            where = f"seed {seed}, value {index}"
            assert (mine.dtype, mine.shape, mine.stride()) == (
                theirs.dtype,
                theirs.shape,
                theirs.stride(),
            ), where
            tolerance = 4e-3 if theirs.dtype == torch.float16 else 2e-4
            torch.testing.assert_close(
                mine.cpu(),
                theirs,
                rtol=tolerance,
                atol=tolerance,
                equal_nan=True,
                msg=lambda m, w=where: f"{w}: {m}",
            )
