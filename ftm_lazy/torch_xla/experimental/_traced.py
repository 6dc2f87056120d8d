"""A loop step as a pair of graphs, forward and backward, that are traced once.

PyTorch's AOTAutograd traces the step on fake tensors. A partition function splits the joint graph
and decides which values are saved for the backward graph and which it recomputes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from functorch.compile import aot_function, make_boxed_func
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.function import FunctionCtx
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from ftm_lazy.torch_xla.experimental import _loops

__all__ = ["PyTree", "TracedStep", "tree_flatten_none"]

PyTree: TypeAlias = Any


def tree_flatten_none(
    pytree: PyTree,
) -> tuple[tuple[torch.Tensor, ...], Callable[[Sequence[object]], PyTree]]:
    """Flatten a tree without its None leaves.

    Returns:
        The other leaves, and a function that rebuilds a tree of the same structure from such
        leaves.
    """
    leaves, structure = tree_flatten(pytree)
    indices = [i for i, leaf in enumerate(leaves) if leaf is not None]

    def unflatten(values: Sequence[object]) -> PyTree:
        filled: list[object] = [None] * len(leaves)
        for index, value in zip(indices, values, strict=True):
            filled[index] = value
        return tree_unflatten(filled, structure)

    return tuple(leaves[index] for index in indices), unflatten


class TracedStep:
    """``carry, y = fn(carry, x)``, traced for the shapes and dtypes of `carry` and `x`.

    Floating-point arguments get gradients. Results are new tensors, even if `fn` returns an
    argument or one tensor twice.

    Args:
        fn: Takes two trees of tensors and returns two. It must not use other tensors. It may write
            its arguments, which are copies.
        carry: Example of the first argument.
        x: Example of the second argument.
        partition_fn: AOTAutograd's partition function.

    Raises:
        AssertionError: `fn` uses a tensor that is not an argument.
    """

    def __init__(
        self,
        fn: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]],
        carry: PyTree,
        x: PyTree,
        partition_fn: object,
    ) -> None:
        arguments, unflatten = tree_flatten_none((carry, x))
        self._graphs: dict[str, torch.fx.GraphModule] = {}
        self._structure: TreeSpec | None = None
        self._is_present: list[bool] = []

        def flat(*values: torch.Tensor) -> list[torch.Tensor]:
            leaves, self._structure = tree_flatten(fn(*_loops.copies(unflatten(values))))
            self._is_present = [leaf is not None for leaf in leaves]
            return [leaf.clone() for leaf in leaves if leaf is not None]

        # detached, because their history is not part of the step
        plain = [value.detach() for value in arguments]
        with FakeTensorMode() as mode, torch.enable_grad():
            fake = [
                mode.from_tensor(value).requires_grad_(
                    value.is_floating_point() or value.is_complex()
                )
                for value in plain
            ]
            traced = aot_function(
                flat, self._keep("forward"), self._keep("backward"), partition_fn=partition_fn
            )
            results = traced(*fake)
            differentiable = [result for result in results if result.requires_grad]
            if differentiable:
                torch.autograd.backward(
                    differentiable, [torch.ones_like(result) for result in differentiable]
                )
        self._results = len(results)
        self._has_gradient = [result.requires_grad for result in results]

    def _keep(self, name: str) -> Callable[..., object]:
        def compiler(graph: torch.fx.GraphModule, example_inputs: Sequence[object]) -> object:
            del example_inputs
            self._graphs[name] = graph
            return make_boxed_func(graph)

        return compiler

    def _unflatten(self, results: Sequence[torch.Tensor]) -> tuple[PyTree, PyTree]:
        assert self._structure is not None
        values = iter(results)
        return tree_unflatten(
            [next(values) if present else None for present in self._is_present], self._structure
        )

    def run_forward(
        self, arguments: Sequence[torch.Tensor]
    ) -> tuple[list[torch.Tensor], tuple[torch.Tensor, ...]]:
        """Return the results, and the values saved for the backward graph."""
        outputs = self._graphs["forward"](*arguments)
        return list(outputs[: self._results]), tuple(outputs[self._results :])

    def run_backward(
        self, activations: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]
    ) -> list[torch.Tensor | None]:
        """Return the gradients of the arguments from those of the results."""
        needed = [
            gradient for gradient, has in zip(gradients, self._has_gradient, strict=True) if has
        ]
        return list(self._graphs["backward"](*activations, *needed))

    def __call__(self, carry: PyTree, x: PyTree) -> tuple[PyTree, PyTree]:
        """Run the step, with gradients."""
        arguments, _ = tree_flatten_none((carry, x))
        return self._unflatten(_Step.apply(self, *arguments))

    def pair(self, carry: PyTree, x: PyTree) -> tuple[Callable[..., object], Callable[..., object]]:
        """Return the graphs as functions of trees; see `scan.value_and_grad_partitioned`."""

        def forward(
            carry: PyTree, x: PyTree
        ) -> tuple[PyTree, tuple[PyTree, tuple[torch.Tensor, ...]]]:
            results, activations = self.run_forward(tree_flatten_none((carry, x))[0])
            new_carry, y = self._unflatten(results)
            return new_carry, (y, activations)

        _, unflatten = tree_flatten_none((carry, x))

        def backward(
            grad_new_carry: PyTree, packed: tuple[PyTree, Sequence[torch.Tensor]]
        ) -> tuple[PyTree, PyTree]:
            grad_y, activations = packed
            gradients = self.run_backward(
                activations, tree_flatten_none((grad_new_carry, grad_y))[0]
            )
            return unflatten(gradients)

        return forward, backward


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx, step: TracedStep, *arguments: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        results, activations = step.run_forward(arguments)
        ctx.step = step
        ctx.save_for_backward(*activations)
        ctx.mark_non_differentiable(
            *(result for result, has in zip(results, step._has_gradient, strict=True) if not has)
        )
        return tuple(results)

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return None, *ctx.step.run_backward(ctx.saved_tensors, gradients)
