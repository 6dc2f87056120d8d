"""Campaign ``chains``: random chains of 3 to 12 operations and their gradients, on every machine
preset.

A chain grows from one input. Each step applies an operation to one of the last results, often with
a new operand. Steps that leave the range of numbers or of sizes that a test can bear are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import campaign
import presets
import torch
import torch.nn.functional as F
from torch import Tensor

SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 32, 33, 48, 64)
LARGE = (96, 128, 130, 200, 257, 300, 512, 576, 1000)
MOST_ELEMENTS = 1 << 18
MOST_WORK = 1 << 24
"""Multiplications of a product; the emulator needs a moment for each million."""

Step = Callable[..., Tensor]


@dataclass
class Chain:
    """Operands that no step computes, and the steps: a function and the numbers of what it is
    applied to."""

    random: Random
    operands: list[Tensor] = field(default_factory=list)
    steps: list[tuple[Step, tuple[int, ...]]] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    """All operands and results as they came, on the CPU in float64."""
    is_operand: list[bool] = field(default_factory=list)
    decides: bool = False
    """Whether a step compares elements, so that rounding can change its gradient."""

    def operand(self, *shape: int) -> int:
        """A new operand of random numbers."""
        scale = 1 if len(shape) < 2 else shape[-2] ** -0.5
        self.operands.append(torch.randn(shape, dtype=torch.float64) * scale)
        self.values.append(self.operands[-1])
        self.is_operand.append(True)
        return len(self.values) - 1

    def apply(self, step: Step, *numbers: int) -> None:
        """Applies a step unless its result is of no use.

        A result of zeros, such as the layer norm of a constant, tests nothing, and rounding errors
        in its gradients have no scale to be compared with.
        """
        result = step(*(self.values[n] for n in numbers))
        if (
            0 < result.numel() <= MOST_ELEMENTS
            and bool(result.isfinite().all())
            and 0 < result.abs().max() < 1e3
        ):
            self.steps.append((step, numbers))
            self.values.append(result)
            self.is_operand.append(False)

    def run(self, device: str, dtype: torch.dtype) -> list[Tensor]:
        """The last results, and the gradients of all operands."""
        leaves = [t.to(dtype).to(device).requires_grad_() for t in self.operands]
        left, steps = iter(leaves), iter(self.steps)
        values: list[Tensor] = []
        for is_operand in self.is_operand:
            if is_operand:
                values.append(next(left))
            else:
                step, numbers = next(steps)
                values.append(step(*(values[n] for n in numbers)))
        results = [
            v for v, is_operand in zip(values, self.is_operand, strict=True) if not is_operand
        ][-2:]
        loss = torch.stack([(r * r).sum() if k else r.sum() for k, r in enumerate(results)]).sum()
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
        return [*results, *(g for g in gradients if g is not None)]


def size(random: Random) -> int:
    """The size of a dimension: mostly small."""
    return random.choice(SIZES if random.random() < 0.85 else LARGE)


UNARY: tuple[Step, ...] = (
    torch.tanh,
    torch.sigmoid,
    torch.square,
    torch.sin,
    torch.neg,
    F.gelu,
    F.silu,
    F.softplus,
    lambda t: torch.exp(-t * t),
    lambda t: torch.sqrt(1 + t * t),
    lambda t: torch.log1p(t * t),
    lambda t: t.reciprocal().clamp(-1, 1) + t,
    lambda t: 2.5 * t - 1,
)
DECIDING: tuple[Step, ...] = (
    F.relu,
    torch.abs,
    F.hardswish,
    lambda t: t.clamp(-0.5, 0.7),
    lambda t: F.leaky_relu(t, 0.1),
)
BINARY: tuple[Step, ...] = (
    torch.add,
    torch.sub,
    torch.mul,
    lambda a, b: a / (1 + b * b),
    torch.hypot,
    lambda a, b: torch.lerp(a, b, 0.3),
)
DECIDING_BINARY: tuple[Step, ...] = (
    torch.maximum,
    torch.minimum,
    lambda a, b: torch.where(a > b, a, b * a),
)


def elementwise(chain: Chain, t: int) -> None:
    """One function of each element."""
    chain.decides |= (decides := chain.random.random() < 0.3)
    chain.apply(chain.random.choice(DECIDING if decides else UNARY), t)


def broadcast(chain: Chain, t: int) -> None:
    """Two operands, one maybe broadcast, or an earlier value of the same shape."""
    shape, random = chain.values[t].shape, chain.random
    chain.decides |= (decides := random.random() < 0.2)
    equal = [n for n, v in enumerate(chain.values) if v.shape == shape and n != t]
    if equal and random.random() < 0.6:
        other = random.choice(equal)
    else:
        first = random.randrange(len(shape) + 1)
        other = chain.operand(*(n if random.random() < 0.7 else 1 for n in shape[first:]))
    pair = (t, other) if random.random() < 0.5 else (other, t)
    chain.apply(random.choice(DECIDING_BINARY if decides else BINARY), *pair)


def product(chain: Chain, t: int) -> None:
    """A matrix product, from either side, of one matrix or a batch."""
    shape, random = chain.values[t].shape, chain.random
    if len(shape) < 2:
        return
    (*batch, m, n), other = shape, size(random)
    if chain.values[t].numel() * other > MOST_WORK:
        return
    outer = batch if random.random() < 0.3 else []
    if random.random() < 0.5:
        chain.apply(torch.matmul, t, chain.operand(*outer, n, other))
    else:
        chain.apply(torch.matmul, chain.operand(*outer, other, m), t)


def reduction(chain: Chain, t: int) -> None:
    """A reduction of any dimensions."""
    random, rank = chain.random, chain.values[t].dim()
    if not rank:
        return
    dims, keep = sorted(random.sample(range(rank), random.randint(1, rank))), random.random() < 0.5
    kind = random.randrange(7)
    chain.decides |= kind in (2, 3)
    chain.apply(
        (
            lambda t: t.sum(dims, keepdim=keep),
            lambda t: t.mean(dims, keepdim=keep),
            lambda t: t.amax(dims, keepdim=keep),
            lambda t: t.amin(dims, keepdim=keep),
            lambda t: t.var(dims, unbiased=False, keepdim=keep),
            lambda t: t.logsumexp(dims, keepdim=keep),
            lambda t: (t * t + 1e-3).sum(dims, keepdim=keep).sqrt(),
        )[kind],
        t,
    )


def along(chain: Chain, t: int) -> None:
    """Operations along one dimension that keep the shape."""
    if not chain.values[t].dim():
        return
    dim = chain.random.randrange(chain.values[t].dim())
    chain.apply(
        chain.random.choice(
            (
                lambda t: t.softmax(dim),
                lambda t: t.log_softmax(dim),
                lambda t: t.cumsum(dim),
                lambda t: t - t.mean(dim, keepdim=True),
                lambda t: t - t.amax(dim, keepdim=True).detach(),
                lambda t: t * torch.rsqrt(t.square().mean(dim, keepdim=True) + 1e-3),
                lambda t: F.layer_norm(t, t.shape[dim:]),
                lambda t: t.flip(dim),
                lambda t: t.roll(1, dim),
            )
        ),
        t,
    )


def view(chain: Chain, t: int) -> None:
    """Views: permutations, slices, new shapes."""
    random, shape = chain.random, chain.values[t].shape
    if not shape:
        return
    order, dim = random.sample(range(len(shape)), len(shape)), random.randrange(len(shape))
    start, step = random.randrange(shape[dim]), random.randint(1, 3)
    at = [slice(None)] * dim + [slice(start, None, step)]
    first = random.randrange(len(shape))
    chain.apply(
        random.choice(
            (
                lambda t: t.permute(order),
                lambda t: t.transpose(dim, -1),
                lambda t: t[at],
                lambda t: t.flatten(first),
                lambda t: t.unsqueeze(dim),
                lambda t: t.unsqueeze(dim).expand(*shape[:dim], 3, *shape[dim:]),
                lambda t: F.pad(t, (1, 2)),
                lambda t: t.select(dim, start),
            )
        ),
        t,
    )


def joining(chain: Chain, t: int) -> None:
    """Concatenation of values that differ in one dimension."""
    random, shape = chain.random, chain.values[t].shape
    if not shape:
        return
    dim = random.randrange(len(shape))

    def fits(v: Tensor) -> bool:
        return v.dim() == len(shape) and all(
            v.shape[k] == n for k, n in enumerate(shape) if k != dim
        )

    fitting = [n for n, v in enumerate(chain.values) if fits(v)]
    parts = random.choices(fitting, k=random.randint(1, 2))
    chain.apply(lambda *each: torch.cat(each, dim), t, *parts)


def convolution(chain: Chain, t: int) -> None:
    """A convolution or a pooling of one or two dimensions."""
    random, shape = chain.random, chain.values[t].shape
    if len(shape) not in (3, 4) or min(shape[2:]) < 3 or shape[1] > 64:
        return
    dims, stride = len(shape) - 2, random.randint(1, 2)
    pool, conv = (F.avg_pool1d, F.conv1d) if dims == 1 else (F.avg_pool2d, F.conv2d)
    if random.random() < 0.3:
        chain.apply(lambda t: pool(t, 2, stride), t)
        return
    kernel, channels = random.randint(1, 3), random.choice(SIZES)
    if chain.values[t].numel() * channels * kernel**dims > MOST_WORK:
        return
    weight = chain.operand(channels, shape[1], *[kernel] * dims)
    padding = random.randrange(kernel)
    chain.apply(lambda t, w: conv(t, w, stride=stride, padding=padding), t, weight)


MOVES = (
    elementwise, elementwise, broadcast, broadcast, product, product, reduction, along, view, view,
    joining, convolution,
)  # fmt: skip


def make(random: Random) -> Chain:
    """A random chain."""
    torch.manual_seed(random.getrandbits(32))
    chain = Chain(random)
    rank = random.randint(1, 4)
    shape = [size(random) for _ in range(rank)]
    while torch.Size(shape).numel() > MOST_ELEMENTS:
        shape[shape.index(max(shape))] //= 4
    chain.operand(*shape)
    wanted = random.randint(3, 12)
    for _ in range(4 * wanted):
        if len(chain.steps) >= wanted:
            break
        recent = range(max(0, len(chain.values) - 3), len(chain.values))
        random.choice(MOVES)(chain, random.choice(recent))
    if not chain.steps:
        chain.apply(torch.tanh, 0)
    return chain


def check(random: Random) -> str | None:
    """Try one random chain; return what is wrong with it, or None."""
    chain, dtype = make(random), random.choice(presets.DTYPES)
    compares = dtype != torch.bfloat16 or not chain.decides
    return presets.attempt(random, dtype, chain.run, compares)


if __name__ == "__main__":
    campaign.main("chains", check, count=6000)
