"""A program found in the cache is the program that was asked for: similar ones give their own
results."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

A, B = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([10.0, 30.0, 50.0])
PAIRS: dict[str, list[Callable[[Tensor, Tensor], list[Tensor]]]] = {
    "which operand is subtracted": [
        lambda a, b: [a.sum(), b.sum(), a - b],
        lambda a, b: [a.sum(), b.sum(), b - a],
    ],
    "swapped inputs": [lambda a, b: [a / b], lambda a, b: [b / a]],
    "one input twice": [
        lambda a, b: [a - b * 2],
        lambda a, b: [a - a * 2],
        lambda a, b: [b - b * 2],
    ],
    "permuted results": [lambda a, b: [a + b, a * b], lambda a, b: [a * b, a + b]],
    "equal scalars": [
        lambda a, b: [a * 2 + 2, b * 3],
        lambda a, b: [a * 2 + 3, b * 3],
        lambda a, b: [a * 3 + 3, b * 3],
    ],
    "shared subexpression": [lambda a, b: [(a + b) * (a + b)], lambda a, b: [(a + b) * (b + b)]],
    "offset of a view": [lambda a, b: [a[:2] - b[1:]], lambda a, b: [a[1:] - b[:2]]],
    "which is written": [lambda a, b: [a.clone().add_(b), b], lambda a, b: [a, b.clone().add_(a)]],
    "scalar 0 and 1": [lambda a, b: [a * 0], lambda a, b: [a * 1], lambda a, b: [a * 1e-8]],
    "attribute": [
        lambda a, b: [torch.stack([a, b]).sum(0)],
        lambda a, b: [torch.stack([a, b]).sum(1)],
    ],
}


@pytest.mark.parametrize("name", PAIRS)
def test_similar_programs(name: str) -> None:
    a, b = A.to("ftm"), B.to("ftm")
    for _ in range(2):  # the second time all are in the cache
        for program in PAIRS[name]:
            for mine, theirs in zip(program(a, b), program(A, B), strict=True):
                torch.testing.assert_close(mine.cpu(), theirs)
