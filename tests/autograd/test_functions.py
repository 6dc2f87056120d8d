"""Custom autograd functions, checkpointing with its random numbers, and hooks on what autograd
saves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.func import grad, vmap
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import ftm_lazy
from autograd.both import same


class Cube(torch.autograd.Function):
    """forward and context in one, as older code writes it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x**3 * scale

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return 3 * x.square() * g * ctx.scale, None


class Sorted(torch.autograd.Function):
    """Setup apart from forward, an output that takes no gradient, and rules for vmap and forward
    mode."""

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.exp(), x.argmax(-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
        values, places = output
        ctx.mark_non_differentiable(places)
        ctx.save_for_backward(values)
        ctx.save_for_forward(values)

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Tensor) -> Tensor:
        return g * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx: Any, t: Tensor) -> tuple[Tensor, None]:
        return t * ctx.saved_tensors[0], None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, x: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        return Sorted.apply(x.movedim(in_dims[0], 0)), (0, 0)


class Once(torch.autograd.Function):
    """Writes its input in place, and can be differentiated once."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 2


def test_custom_functions() -> None:
    def run(x: Tensor) -> tuple[Tensor, ...]:
        (first,) = torch.autograd.grad(Cube.apply(x, 0.5).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        values, places = Sorted.apply(x)
        (exp,) = torch.autograd.grad(values.sum(), x)
        (once,) = torch.autograd.grad(Once.apply(x * 3).sum(), x)
        return first, second, values, places, exp, once

    same(run, torch.randn(3, 4, requires_grad=True))


def test_custom_functions_transformed() -> None:
    x = torch.randn(3, 4)
    same(lambda x: vmap(Sorted.apply, in_dims=1)(x), x)
    same(lambda x: vmap(grad(lambda row: Sorted.apply(row)[0].sum()))(x), x)
    same(lambda x: torch.func.jvp(lambda x: Sorted.apply(x)[0], (x,), (torch.ones_like(x),)), x)


def test_once_means_once() -> None:
    x = torch.randn(3, device="ftm", requires_grad=True)
    (g,) = torch.autograd.grad((Once.apply(x * 1) * x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


# --- checkpointing
# ----------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return F.dropout(torch.tanh(self.inner(x)), 0.5, training=True) + x


def gradients(block: Block, x: Tensor, **options: Any) -> list[Tensor]:
    torch.manual_seed(3)
    block.zero_grad()
    x = x.detach().requires_grad_()
    out = checkpoint(block, x, **options) if options else block(x)
    out.square().sum().backward()
    return [out.detach().cpu(), x.grad.cpu(), *(p.grad.cpu() for p in block.parameters())]


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint(reentrant: bool) -> None:
    """The forward pass runs twice and drops the same elements both times."""
    block, x = Block().to("ftm"), torch.randn(16, 8, device="ftm")
    plain = gradients(block, x)
    assert block.calls == 1
    again = gradients(block, x, use_reentrant=reentrant)
    assert block.calls == 3
    torch.testing.assert_close(again, plain, rtol=1e-6, atol=1e-6)
    if reentrant:
        return
    unlike = gradients(block, x, use_reentrant=False, preserve_rng_state=False)
    assert not torch.allclose(unlike[1], plain[1])


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_leaves_the_stream_alone(reentrant: bool) -> None:
    """After a backward pass that recomputed, random numbers go on where they were."""

    def after(**options: Any) -> list[float]:
        gradients(block, x, **options)
        return torch.rand(4, device="ftm").tolist()

    block, x = Block().to("ftm"), torch.randn(4, 8, device="ftm")
    assert after() == after(use_reentrant=reentrant)


def test_checkpoint_sequential_as_on_the_cpu() -> None:
    net = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(4)))

    def run(x: Tensor, state: dict[str, Tensor]) -> list[Tensor]:
        model = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(4))).to(
            x.device
        )
        model.load_state_dict(state)
        checkpoint_sequential(model, 2, x, use_reentrant=False).square().sum().backward()
        return [x.grad, *(p.grad for p in model.parameters())]

    same(run, torch.randn(3, 6, requires_grad=True), dict(net.state_dict()))


def test_selective_checkpoint() -> None:
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    kept = [torch.ops.aten.mm.default]

    def run(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        def contexts() -> Any:
            return create_selective_checkpoint_contexts(
                lambda ctx, op, *a, **k: (
                    CheckpointPolicy.MUST_SAVE if op in kept else CheckpointPolicy.PREFER_RECOMPUTE
                )
            )

        out = checkpoint(
            lambda x: torch.mm(x, w).sigmoid().exp(), x, use_reentrant=False, context_fn=contexts
        )
        return torch.autograd.grad(out.sum(), (x, w))

    same(run, torch.randn(3, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True))


def test_saved_tensors_hooks() -> None:
    def run(x: Tensor) -> tuple[Tensor, ...]:
        packed: list[Tensor] = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: packed.append(t * 1) or t.half(), lambda t: t.float()
        ):
            y = x.exp() * x
        (g,) = torch.autograd.grad(y.sum(), x)
        with torch.autograd.graph.save_on_cpu():
            z = (x.sin() @ x.t()).square()
        return (g, *packed, *torch.autograd.grad(z.sum(), x))

    same(run, torch.randn(3, 3, requires_grad=True), rtol=1e-2, atol=1e-2)


def test_graph_of_a_program() -> None:
    """Walking the graph and capturing hooks works as for any tensor."""
    x = torch.randn(3, device="ftm", requires_grad=True)
    y = (x * 2).exp()
    assert y.grad_fn.name() == "ExpBackward0"
    assert y.grad_fn.next_functions[0][0].name() == "MulBackward0"
    seen: list[Tensor] = []
    y.grad_fn.register_prehook(lambda g: seen.append(g[0]))
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        z = x * 1
        w = z.square()
        z.zero_()
        (y.sum() + w.sum()).backward()
    torch.testing.assert_close(x.grad.cpu(), 2 * y.detach().cpu() + 2 * x.detach().cpu())
    assert seen[0].cpu().tolist() == [1, 1, 1]
    assert ftm_lazy.metrics.counters()["compile_failures"] == 0
