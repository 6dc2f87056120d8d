"""torch_xla.experimental.scan: a function applied along the first dimension of tensors, with something carried along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from functorch.compile import default_partition
from torch.utils._pytree import tree_flatten, tree_unflatten

from ftm_lazy.torch_xla import _refusals
from ftm_lazy.torch_xla.experimental import _loops

__all__ = ["scan"]

__getattr__ = _refusals.getter(__name__)

Carry = TypeVar("Carry")
X = TypeVar("X")
Y = TypeVar("Y")


def scan(
    fn: Callable[[Carry, X], tuple[Carry, Y]],
    init: Carry,
    xs: X,
    partition_fn: object = default_partition,
    is_fn_pure: bool = False,
) -> tuple[Carry, Y]:
    """``carry, ys[i] = fn(carry, xs[i])`` for all i, in order.

    The loop runs in pieces of some steps, each piece by the same program, forward and backward: what is compiled does not
    grow with the number of steps.

    Args:
        fn: of two trees of tensors, and returning two.
        init: the first carry.
        xs: tensors whose first dimension is the number of steps, in any tree.
        partition_fn: accepted; `torch.utils.checkpoint` in `fn` saves memory.
        is_fn_pure: accepted; recording `fn` in each step is cheap.

    Returns:
        the last carry, and the ys stacked along a new first dimension.

    Raises ValueError if there are no steps or their numbers differ.
    """
    leaves, structure = tree_flatten(xs)
    lengths = {leaf.shape[0] for leaf in leaves}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"xs must have tensors of one first dimension, of at least 1; got {sorted(lengths)}")
    carry, collected, out = init, [], None
    pieces = _loops.Pieces()
    for parts in zip(*(_loops.slices(leaf) for leaf in leaves), strict=True):
        carry, y = fn(carry, tree_unflatten(list(parts), structure))
        ys, out = tree_flatten(y)
        collected.append(ys)
        pieces.end_of_step([leaf for leaf in tree_flatten(carry)[0] if isinstance(leaf, torch.Tensor)])
    stacked = [None if each[0] is None else _loops.gather(list(each)) for each in zip(*collected, strict=True)]
    return carry, tree_unflatten(stacked, out)
