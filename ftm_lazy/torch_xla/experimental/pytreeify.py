"""torch_xla.experimental.pytreeify: autograd functions of trees of tensors."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["pytreeify"]


def pytreeify(cls: type[torch.autograd.Function]) -> type[torch.autograd.Function]:
    """Class decorator: `forward` may take and return trees of tensors, and `backward` gets and
    gives gradients in these trees."""
    forward, backward = cls.forward, cls.backward

    class Flat(cls):
        """`cls` on flat lists."""

        @staticmethod
        def forward(ctx: Any, structure: Any, out: list[Any], *leaves: Any) -> Any:
            result, out[:] = (lambda flat: (tuple(flat[0]), [flat[1]]))(
                tree_flatten(forward(ctx, *tree_unflatten(list(leaves), structure)))
            )
            ctx._structures = structure, out[0]
            return result

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            structure, out = ctx._structures
            given = tree_unflatten(list(gradients), out)
            result = backward(ctx, *(given if isinstance(given, tuple) else (given,)))
            leaves = tree_flatten(result if isinstance(result, tuple) else (result,))[0]
            if len(leaves) != structure.num_leaves:
                raise ValueError(
                    f"backward gave {len(leaves)} gradients for {structure.num_leaves} inputs"
                )
            return (None, None, *leaves)

    @functools.wraps(cls.apply)
    def apply(*args: object) -> Any:
        leaves, structure = tree_flatten(args)
        out: list[Any] = []
        flat = Flat.apply(structure, out, *leaves)
        return tree_unflatten(list(flat), out[0])

    return type(cls.__name__, (cls,), {"apply": staticmethod(apply), "__doc__": cls.__doc__})
