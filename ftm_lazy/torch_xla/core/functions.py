"""torch_xla.core.functions: differentiable collectives."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import FunctionCtx

from ftm_lazy.torch_xla import _world
from ftm_lazy.torch_xla.core import _collectives as collectives

__all__ = [
    "AllGather",
    "AllReduce",
    "AllReduceSumLayer",
    "SyncBatchNorm",
    "all_gather",
    "all_reduce",
    "distributed_mm",
]


class AllReduce(torch.autograd.Function):
    """Autograd function of `all_reduce`; the gradient is not reduced over the processes."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        input: torch.Tensor,
        reduce_type: str,
        scale: float,
        groups: list[list[int]] | None,
    ) -> torch.Tensor:
        """Return the reduction of `input` over the processes."""
        output = collectives.all_reduce(reduce_type, input, scale, groups)
        ctx.reduce_type, ctx.scale = reduce_type, scale
        ctx.save_for_backward(input, output)
        return output

    @staticmethod
    def backward(ctx: FunctionCtx, grad_output: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradient of this process's `input`."""
        input, output = ctx.saved_tensors
        grad = grad_output * ctx.scale
        if ctx.reduce_type == collectives.REDUCE_MUL:
            grad = grad * torch.where(input != 0, output / input, torch.zeros_like(input))
        elif ctx.reduce_type in (collectives.REDUCE_MIN, collectives.REDUCE_MAX):
            grad = torch.where(input == output, grad, torch.zeros_like(grad))
        elif ctx.reduce_type != collectives.REDUCE_SUM:
            raise RuntimeError(f"Unsupported reduce type: {ctx.reduce_type}")
        return grad, None, None, None


def all_reduce(
    reduce_type: str, value: torch.Tensor, scale: float = 1.0, groups: list[list[int]] | None = None
) -> torch.Tensor:
    """Reduce a tensor over the processes, with a gradient.

    Args:
        reduce_type: `REDUCE_SUM`, `REDUCE_MUL`, `REDUCE_MIN` or `REDUCE_MAX` of `xla_model`.
        value: The tensor.
        scale: Factor of the result.
        groups: Lists of ordinals, each reduced separately; None for all processes.

    Returns:
        A new tensor of the same shape.
    """
    return AllReduce.apply(value, reduce_type, scale, groups)


class AllGather(torch.autograd.Function):
    """Autograd function of `all_gather`; the gradient is that of this process's part."""

    @staticmethod
    def forward(ctx: FunctionCtx, input: torch.Tensor, dim: int) -> torch.Tensor:
        """Return the inputs of all processes, concatenated along `dim`."""
        ctx.dim, ctx.length = dim, input.size(dim)
        return collectives.all_gather(input, dim)

    @staticmethod
    def backward(ctx: FunctionCtx, grad_output: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradient of this process's `input`."""
        return grad_output.narrow(ctx.dim, _world.ordinal() * ctx.length, ctx.length).clone(), None


def all_gather(value: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """Concatenate the values of all processes along `dim`, with a gradient.

    Args:
        value: A tensor of the same shape in each process.
        dim: Dimension of the concatenation, in the order of ordinals.

    Returns:
        A new tensor.
    """
    return AllGather.apply(value, dim)


def distributed_mm(w: torch.Tensor, x: torch.Tensor, split: int = 1) -> torch.Tensor:
    """Multiply by a weight whose columns are sharded over the processes.

    Args:
        w: [n, k], this process's columns of a weight [n, k * processes].
        x: [k * processes, m], this process's input.
        split: Number of parts in which the columns of `x` are gathered, to save memory; divides m.

    Returns:
        A tensor [n, m], the product with the whole weight.

    Raises:
        ValueError: The shapes do not match, or `split` does not divide m.
    """
    ordinal, k = _world.ordinal(), w.size(1)
    if x.size(0) != k * _world.size():
        raise ValueError(f"x has {x.size(0)} rows; {k} * {_world.size()} are needed")
    if x.size(1) % split:
        raise ValueError(f"split={split} does not divide the {x.size(1)} columns of x")
    results = []
    for part in x.chunk(split, 1):
        columns = part.size(1)
        slices = all_gather(part, 1).narrow(0, ordinal * k, k)
        results.append(
            all_reduce(collectives.REDUCE_SUM, w @ slices).narrow(1, ordinal * columns, columns)
        )
    return torch.cat(results, 1)


class AllReduceSumLayer(torch.autograd.Function):
    """Autograd function of a sum over the processes; the gradient is summed, too."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of `x` over the processes."""
        return collectives.all_reduce(collectives.REDUCE_SUM, x)

    @staticmethod
    def backward(ctx: object, grad_output: torch.Tensor) -> torch.Tensor:
        """Return the sum of the gradients over the processes."""
        return collectives.all_reduce(collectives.REDUCE_SUM, grad_output)


class SyncBatchNorm(torch.nn.Module):
    """Batch normalization with the statistics of all processes' batches.

    Args:
        num_features: Number of channels, the size of dimension 1 of the input.
        eps: Added to the variance.
        momentum: Weight of a batch in the running statistics.
    """

    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float = 0.1) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(num_features))
        self.bias = torch.nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Normalize a batch.

        Args:
            batch: [n, channels, ...] with 2 to 5 dimensions.

        Returns:
            A tensor of the same shape.

        Raises:
            ValueError: The batch has another shape.
        """
        if not 2 <= batch.ndim <= 5 or batch.shape[1] != self.num_features:
            raise ValueError(
                f"expected [n, {self.num_features}, ...] of 2 to 5 dimensions,"
                f" got {list(batch.shape)}"
            )
        mean, variance = (
            self._statistics(batch) if self.training else (self.running_mean, self.running_var)
        )
        shape = (1, -1) + (1,) * (batch.ndim - 2)
        scale = self.weight / torch.sqrt(variance + self.eps)
        return (batch - mean.view(shape)) * scale.view(shape) + self.bias.view(shape)

    def _statistics(self, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        dims = [dim for dim in range(batch.ndim) if dim != 1]
        moments = torch.stack([batch.mean(dims), (batch * batch).mean(dims)])
        mean, square = (AllReduceSumLayer.apply(moments) / _world.size()).unbind()
        variance = square - mean * mean
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance, self.momentum)
        return mean, variance

    def extra_repr(self) -> str:
        """Return the constructor's arguments for `repr`."""
        return f"{self.num_features}, eps={self.eps}"
