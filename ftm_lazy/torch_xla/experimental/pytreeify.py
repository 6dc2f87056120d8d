"""torch_xla.experimental.pytreeify: autograd functions with trees of tensors."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.autograd.function import FunctionCtx
from torch.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["pytreeify"]


def pytreeify(cls: type[torch.autograd.Function]) -> type[torch.autograd.Function]:
    """Let an autograd function take and return trees of tensors (class decorator).

    `backward` takes and returns gradients in trees of the same structures.
    """
    forward, backward = cls.forward, cls.backward

    class Flat(cls):
        """`cls` on flat lists."""

        @staticmethod
        def forward(
            ctx: FunctionCtx, structure: object, out: list[object], *leaves: object
        ) -> object:
            results, result_structure = tree_flatten(
                forward(ctx, *tree_unflatten(list(leaves), structure))
            )
            out[:] = [result_structure]
            ctx._structures = structure, result_structure
            return tuple(results)

        @staticmethod
        def backward(ctx: FunctionCtx, *gradients: object) -> object:
            structure, result_structure = ctx._structures
            tree = tree_unflatten(list(gradients), result_structure)
            result = backward(ctx, *(tree if isinstance(tree, tuple) else (tree,)))
            leaves = tree_flatten(result if isinstance(result, tuple) else (result,))[0]
            if len(leaves) != structure.num_leaves:
                raise ValueError(
                    f"backward returned {len(leaves)} gradients for {structure.num_leaves} inputs"
                )
            return (None, None, *leaves)

    @functools.wraps(cls.apply)
    def apply(*args: object) -> object:
        leaves, structure = tree_flatten(args)
        out: list[object] = []
        flat = Flat.apply(structure, out, *leaves)
        return tree_unflatten(list(flat), out[0])

    return type(cls.__name__, (cls,), {"apply": staticmethod(apply), "__doc__": cls.__doc__})
