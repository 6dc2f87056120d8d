"""Campaign: random ops draw from the interval that PyTorch documents, with the mean and the
deviation of their distribution."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from torch import Tensor

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from strangers import campaign

COUNT = 50_000
SIGMAS = 6.0
"""How far a mean may be from its expectation: one case in 10^9 is further by chance."""

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
WIDE = (torch.float32, torch.float64)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@dataclass
class Sample:
    """What an op drew, and what its distribution says of it.

    inside: whether each element lies in the documented interval. mean, deviation: of the
    distribution, in the dtype's precision; None where the dtype's range cuts the distribution.
    """

    drawn: Tensor
    inside: Tensor
    mean: float | None
    deviation: float


def _empty(dtype: torch.dtype) -> Tensor:
    return torch.empty(COUNT, dtype=dtype, device="ftm")


def _uniform_between(drawn: torch.Tensor, low: float, high: float) -> Sample:
    first, end = torch.tensor([low, high], dtype=drawn.dtype)
    return Sample(
        drawn,
        # A half type may round both ends to one number, which eager draws, too.
        (drawn >= first) & ((drawn < end) | (first == end)),
        (first.item() + end.item()) / 2,
        (end.item() - first.item()) / math.sqrt(12),
    )


def _uniform(random: Random, dtype: torch.dtype) -> Sample:
    low = random.choice([0.0, 1.0, -1.0, -0.1, random.uniform(-200, 200)])
    high = low + random.choice([1.0, 2.0, 0.3, random.uniform(1, 300)])
    drawn = _empty(dtype).uniform_(low, high).cpu()
    return _uniform_between(drawn, low, high)


def _rand(random: Random, dtype: torch.dtype) -> Sample:
    drawn = (
        torch.rand_like(_empty(dtype))
        if random.random() < 0.5
        else torch.rand(COUNT, dtype=dtype, device="ftm")
    )
    drawn = drawn.cpu()
    return Sample(drawn, (drawn >= 0) & (drawn < 1), 0.5, 1 / math.sqrt(12))


def _normal(random: Random, dtype: torch.dtype) -> Sample:
    mean, deviation = random.uniform(-3, 3), random.uniform(0.1, 3)
    drawn = random.choice(
        [
            lambda: _empty(dtype).normal_(mean, deviation),
            lambda: torch.normal(torch.full((COUNT,), mean, dtype=dtype, device="ftm"), deviation),
            lambda: torch.randn(COUNT, dtype=dtype, device="ftm") * deviation + mean,
        ]
    )().cpu()
    return Sample(drawn, drawn.isfinite(), mean, deviation)


def _log_normal(random: Random, dtype: torch.dtype) -> Sample:
    mean, deviation = random.uniform(-1, 1), random.uniform(0.1, 0.7)
    drawn = _empty(dtype).log_normal_(mean, deviation).cpu()
    expected = math.exp(mean + deviation**2 / 2)
    return Sample(drawn, drawn > 0, expected, expected * math.sqrt(math.expm1(deviation**2)))


def _exponential(random: Random, dtype: torch.dtype) -> Sample:
    rate = random.choice([1.0, 1e-2, 30.0, 1e4, random.uniform(0.1, 10)])
    drawn = _empty(dtype).exponential_(rate).cpu()
    # Half types round the many small draws of a large rate to few numbers.
    return Sample(
        drawn,
        (drawn > 0) & drawn.isfinite(),
        None if dtype is torch.float16 and rate > 100 else 1 / rate,
        1 / rate,
    )


def _gumbel(random: Random, dtype: torch.dtype) -> Sample:
    drawn = torch.nn.functional.gumbel_softmax(
        torch.zeros(COUNT // 4, 4, dtype=dtype, device="ftm"), tau=random.uniform(0.5, 2)
    ).cpu()
    return Sample(drawn, (drawn >= 0) & (drawn <= 1), 0.25, 0.4)


def _cauchy(random: Random, dtype: torch.dtype) -> Sample:
    """Its mean does not exist; the share above the median does."""
    median, scale = random.uniform(-1, 1), random.uniform(0.5, 2)
    drawn = _empty(dtype).cauchy_(median, scale).cpu()
    return Sample((drawn > median).double(), ~drawn.isnan(), 0.5, 0.5)


def _geometric(random: Random, dtype: torch.dtype) -> Sample:
    p = random.choice([0.5, 0.9, 0.25, 1 - 1e-9])
    drawn = _empty(dtype).geometric_(p).cpu()
    return Sample(drawn, drawn >= 1, 1 / p, math.sqrt(1 - p) / p)


def _bernoulli(random: Random, dtype: torch.dtype) -> Sample:
    p = random.choice([0.0, 1.0, 0.5, random.random()])
    drawn = _empty(dtype).bernoulli_(p).cpu()
    return Sample(drawn, (drawn == 0) | (drawn == 1), p, math.sqrt(p * (1 - p)))


def _dropout(random: Random, dtype: torch.dtype) -> Sample:
    p = random.choice([0.0, 0.5, random.uniform(0, 0.9)])
    drawn = torch.nn.functional.dropout(torch.ones_like(_empty(dtype)), p).cpu()
    kept = torch.tensor(1 / (1 - p), dtype=dtype)
    return Sample(
        (drawn != 0).double(), (drawn == 0) | (drawn == kept), 1 - p, math.sqrt(p * (1 - p))
    )


def _rrelu(random: Random, dtype: torch.dtype) -> Sample:
    low, high = sorted((random.uniform(0, 2), random.choice([1.0, 2.0, 0.25])))
    drawn = -torch.nn.functional.rrelu(
        -torch.ones_like(_empty(dtype)), low, high, training=True
    ).cpu()
    return _uniform_between(drawn, low, high)


def _integers(random: Random, dtype: torch.dtype) -> Sample:
    widest = {torch.int8: 100, torch.uint8: 200, torch.int16: 30_000, torch.float16: 60_000}.get(
        dtype, 2**26
    )
    low = random.randrange(0 if dtype is torch.uint8 else -widest, widest)
    high = random.randrange(low + 1, widest + 2)
    drawn = random.choice(
        [
            lambda: _empty(dtype).random_(low, high),
            lambda: torch.randint(low, high, (COUNT,), dtype=dtype, device="ftm"),
        ]
    )()
    drawn = drawn.cpu()
    exact = drawn.double()
    # Floats of few digits hold few numbers between two large bounds.
    holds = not dtype.is_floating_point or max(abs(low), abs(high)) <= 2 / torch.finfo(dtype).eps
    inside = (exact >= low) & (exact < high) if holds or high - low > widest / 2 else torch.ones(1)
    return Sample(
        drawn, inside, (low + high - 1) / 2 if holds else None, (high - low) / math.sqrt(12)
    )


def _permutation(random: Random, dtype: torch.dtype) -> Sample:
    n = random.randrange(1, 128)
    drawn = torch.randperm(n, dtype=dtype, device="ftm").cpu()
    return Sample(drawn, drawn.sort().values == torch.arange(n, dtype=dtype), None, 0.0)


def _multinomial(random: Random, dtype: torch.dtype) -> Sample:
    weights = torch.tensor(
        [random.choice([0.0, random.random()]) for _ in range(8)] + [1.0], dtype=dtype
    )
    drawn = torch.multinomial(weights.to("ftm"), COUNT, replacement=True).cpu()
    shares = weights.double() / weights.double().sum()
    places = torch.arange(9.0, dtype=torch.double)
    mean = (shares * places).sum().item()
    return Sample(
        drawn, weights[drawn] > 0, mean, math.sqrt((shares * (places - mean) ** 2).sum().item())
    )


DISTRIBUTIONS: dict[
    str, tuple[Callable[[Random, torch.dtype], Sample], tuple[torch.dtype, ...]]
] = {
    "uniform": (_uniform, FLOATS),
    "rand": (_rand, FLOATS),
    "normal": (_normal, FLOATS),
    "log_normal": (_log_normal, FLOATS),
    "exponential": (_exponential, FLOATS),
    "gumbel_softmax": (_gumbel, FLOATS),
    "cauchy": (_cauchy, FLOATS),
    "geometric": (_geometric, FLOATS + INTEGERS),
    "bernoulli": (_bernoulli, (*FLOATS, *INTEGERS, torch.bool)),
    "dropout": (_dropout, FLOATS),
    "rrelu": (_rrelu, FLOATS),
    "integers": (_integers, FLOATS + INTEGERS),
    "permutation": (_permutation, FLOATS + INTEGERS),
    "multinomial": (_multinomial, FLOATS),
}


def fault(sample: Sample, dtype: torch.dtype) -> str | None:
    """What of a sample does not fit its distribution."""
    if not sample.inside.all():
        return f"outside of the interval: {sample.drawn[~sample.inside][:5].tolist()}"
    if sample.mean is None:
        return None
    found = sample.drawn.double().mean().item()
    spread = sample.deviation / math.sqrt(len(sample.drawn))
    largest = abs(sample.mean) + 2 * sample.deviation
    rounding = torch.finfo(dtype).eps * largest if dtype.is_floating_point else 0.0
    if abs(found - sample.mean) > SIGMAS * spread + rounding + 1e-6 * largest:
        return f"mean {found}, expected {sample.mean} within {spread}"
    return None


def check(random: Random) -> str | None:
    """One distribution with random parameters, in a random dtype."""
    name = random.choice(list(DISTRIBUTIONS))
    draw, dtypes = DISTRIBUTIONS[name]
    dtype = random.choice(dtypes)
    torch.manual_seed(random.randrange(2**32))
    found = fault(draw(random, dtype), dtype)
    return f"{name} {dtype}: {found}" if found else None


if __name__ == "__main__":
    campaign.main("draws", check, count=1000)
