"""torch_xla.experimental.scan: a loop over the first dimension of tensors, with carried values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from functorch.compile import default_partition
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from ftm_lazy.torch_xla import _refusals
from ftm_lazy.torch_xla.experimental import _loops
from ftm_lazy.torch_xla.experimental._traced import PyTree, TracedStep, tree_flatten_none

__all__ = ["scan", "tree_flatten_none", "value_and_grad_partitioned"]

_SCAN_COMPUTATION_CACHE: WeakKeyDictionary[
    Callable[..., object], dict[tuple[object, ...], TracedStep]
] = WeakKeyDictionary()
"""Traced steps of pure functions: function -> partition function and argument types -> step."""

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
    """Compute ``carry, ys[i] = fn(carry, xs[i])`` for all i, in order.

    The loop runs in chunks of some steps. All chunks run the same program, forward and backward, so
    compile time does not depend on the number of steps.

    Args:
        fn: Takes two trees of tensors and returns two. It may write its arguments, which are
            copies.
        init: The first carry.
        xs: A tree of tensors whose first dimension is the number of steps.
        partition_fn: AOTAutograd's partition function, which decides what the backward pass
            recomputes. Except with `default_partition`, `fn` is traced, and then must not use
            tensors other than its arguments.
        is_fn_pure: `fn` has no side effects and uses no tensors other than its arguments. Then it
            is traced once for each type of arguments; otherwise it is called in each step.

    Returns:
        The last carry, and the ys stacked along a new first dimension.

    Raises:
        ValueError: `fn` is not callable, there are no steps, or the first dimensions differ.
    """
    if not callable(fn):
        raise ValueError(f"fn must be callable, got {fn!r}")
    leaves, structure = tree_flatten(xs)
    lengths = {leaf.shape[0] for leaf in leaves}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            f"xs must have tensors of one first dimension, of at least 1; got {sorted(lengths)}"
        )
    if is_fn_pure or partition_fn is not default_partition:
        fn = _traced(fn, init, tree_map(lambda leaf: leaf[0], xs), partition_fn, is_fn_pure)
    carry, collected, out = init, [], None
    pieces = _loops.Pieces()
    for parts in zip(*(_loops.slices(leaf) for leaf in leaves), strict=True):
        x = tree_unflatten(list(parts), structure)
        carry, y = fn(_loops.copies(carry), _loops.copies(x))
        ys, out = tree_flatten(y)
        collected.append(ys)
        pieces.end_of_step(
            [leaf for leaf in tree_flatten(carry)[0] if isinstance(leaf, torch.Tensor)]
        )
    stacked = [
        None if each[0] is None else _loops.gather(list(each))
        for each in zip(*collected, strict=True)
    ]
    return carry, tree_unflatten(stacked, out)


def _traced(
    fn: Callable[[Carry, X], tuple[Carry, Y]],
    carry: Carry,
    x: X,
    partition_fn: object,
    is_cached: bool,
) -> TracedStep:
    if not is_cached:
        return TracedStep(fn, carry, x, partition_fn)
    leaves, structure = tree_flatten((carry, x))
    types = [
        (leaf.shape, leaf.dtype, leaf.device) if isinstance(leaf, torch.Tensor) else leaf
        for leaf in leaves
    ]
    key = (partition_fn, structure, *types)
    steps = _SCAN_COMPUTATION_CACHE.setdefault(fn, {})
    if key not in steps:
        steps[key] = TracedStep(fn, carry, x, partition_fn)
    return steps[key]


def value_and_grad_partitioned(
    fn: Callable[[Carry, X], tuple[Carry, Y]],
    init: Carry,
    xs: X,
    partition_fn: object = default_partition,
    is_fn_pure: bool = True,
) -> tuple[Callable[[Carry, X], PyTree], Callable[[Carry, PyTree], PyTree]]:
    """Return one step of ``scan(fn, init, xs)`` as a forward and a backward function.

    Args:
        fn: As in `scan`.
        init: As in `scan`.
        xs: As in `scan`.
        partition_fn: As in `scan`.
        is_fn_pure: As in `scan`.

    Returns:
        ``forward(carry, x)``, which returns ``new_carry, (y, activations)``, and
        ``backward(grad_new_carry, (grad_y, activations))``, which returns ``grad_carry, grad_x``.
    """
    x = tree_map(lambda leaf: leaf[0], xs)
    return _traced(fn, init, x, partition_fn, is_fn_pure).pair(init, x)
