"""Programs run op by op on the CPU, as those do that do not compile: forward, backward and training
give the CPU's results."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(6, 4), (5, 6)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3), (2, 4, 9)),
    "conv2d": (lambda: nn.Conv2d(4, 6, 3, padding=1), (2, 4, 7, 7)),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2), (2, 4, 5, 5)),
    "batch_norm1d": (lambda: nn.BatchNorm1d(4), (6, 4)),
    "batch_norm2d": (lambda: nn.BatchNorm2d(4), (3, 4, 5, 5)),
    "batch_norm3d": (lambda: nn.BatchNorm3d(4), (2, 4, 3, 3, 3)),
    "batch_norm without statistics": (
        lambda: nn.BatchNorm2d(4, track_running_stats=False),
        (3, 4, 5, 5),
    ),
    "instance_norm1d": (lambda: nn.InstanceNorm1d(4, affine=True), (2, 4, 6)),
    "instance_norm2d": (
        lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
        (2, 4, 5, 5),
    ),
    "layer_norm": (lambda: nn.LayerNorm(6), (4, 6)),
    "group_norm": (lambda: nn.GroupNorm(2, 4), (3, 4, 5)),
    "prelu": (lambda: nn.PReLU(4), (3, 4, 5)),
    "gru": (lambda: nn.GRU(6, 4), (3, 2, 6)),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), (3, 2, 8)),
}


def _outcome(
    make: Callable[[], nn.Module],
    shape: tuple[int, ...],
    device: str,
    of_input: bool,
    of_parameters: str,
) -> list[Tensor | None]:
    torch.manual_seed(1)
    module, x = make().to(device), torch.randn(shape).to(device).requires_grad_(of_input)
    for number, parameter in enumerate(module.parameters()):
        parameter.requires_grad_(
            of_parameters == "all" or (of_parameters == "some" and number % 2 == 0)
        )
    made = module(x)
    made = made[0] if isinstance(made, tuple) else made
    wanted = [t for t in (x, *module.parameters()) if t.requires_grad]
    gradients = (
        torch.autograd.grad((made * made).sum(), wanted, allow_unused=True) if wanted else []
    )
    return [t if t is None else t.detach().cpu() for t in (made, *gradients, *module.buffers())]


@pytest.mark.parametrize("of_parameters", ["all", "some", "none"])
@pytest.mark.parametrize("of_input", [True, False])
@pytest.mark.parametrize("name", MODULES)
def test_a_module_and_some_of_its_gradients(name: str, of_input: bool, of_parameters: str) -> None:
    got, want = (
        _outcome(*MODULES[name], device, of_input, of_parameters) for device in ("ftm", "cpu")
    )
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mask", [(False, True, True), (True, False, False), (False, False, True)])
def test_results_that_a_mask_excludes(executor: str, mask: tuple[bool, ...]) -> None:
    def gradients(device: str) -> list[Tensor | None]:
        torch.manual_seed(1)
        x, weight = torch.randn(2, 3, 4, 4).to(device), torch.rand(3).to(device)
        zeros, ones = torch.zeros(3).to(device), torch.ones(3).to(device)
        found = torch.ops.aten.native_batch_norm_backward(
            x, x, weight, zeros, ones, zeros, ones, True, 1e-5, list(mask)
        )
        return [None if each is None else each.cpu() for each in found]

    torch.testing.assert_close(gradients("ftm"), gradients("cpu"), rtol=1e-4, atol=1e-4)


def _train(device: str, optimizer: Callable[..., torch.optim.Optimizer]) -> list[Tensor]:
    torch.manual_seed(1)
    network = nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3), nn.InstanceNorm2d(8, affine=True),
        nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3),
    ).to(device)  # fmt: skip
    images, labels = (
        torch.randn(6, 1, 12, 12).to(device),
        torch.tensor([0, 1, 2, 0, 1, 2]).to(device),
    )
    steps, losses = optimizer(network.parameters()), []
    for _ in range(3):
        steps.zero_grad()
        loss = F.cross_entropy(network(images), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        steps.step()
        losses.append(loss.detach())
    return [t.detach().cpu() for t in (*losses, *network.buffers())]


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, lr=1e-2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_a_convolutional_network(name: str) -> None:
    torch.testing.assert_close(
        _train("ftm", OPTIMIZERS[name]), _train("cpu", OPTIMIZERS[name]), rtol=1e-3, atol=1e-4
    )


def _views(x: Tensor) -> Tensor:
    x[1] = 0
    x.t()[0].add_(1)
    x.diagonal().mul_(2)
    x[x > 1] -= 0.5
    return x.as_strided((2, 2), (1, 3), 1) + x.view(9)[::4][:2]


def _complex(x: Tensor) -> Tensor:
    z = torch.view_as_complex(torch.stack([x, x.t()], -1).contiguous())
    return torch.view_as_real((z @ z.mH) * 1j)


PROGRAMS: dict[str, Callable[[Tensor], object]] = {
    "writes through views": _views,
    "complex numbers": _complex,
    "sort and topk": lambda x: (x.sort(1), x.topk(2), x.argmax()),
    "scatter": lambda x: (
        torch.zeros_like(x).scatter_add_(0, x.argsort(0), x).index_add(0, x[0].argsort(), x)
    ),
    "bits": lambda x: (x.view(torch.int32) >> 3, x.to(torch.uint8), x > 0),
    "reductions": lambda x: (x.var(0), x.cumsum(1), x.logsumexp(0), x.norm(), x.amax(1)),
    "an undefined saved statistic": lambda x: F.batch_norm(x, x[0], x[1].abs() + 1, training=False),
    "an empty result": lambda x: (
        x[:0] @ x,
        F.embedding_bag(
            torch.zeros(0, dtype=torch.int64, device=x.device), x, x.new_zeros(1).long()
        ),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(name: str) -> None:
    x = torch.linspace(-2, 3, 9).reshape(3, 3).sin()

    def run(device: str) -> object:
        return torch.utils._pytree.tree_map(lambda t: t.cpu(), PROGRAMS[name](x.clone().to(device)))

    torch.testing.assert_close(run("ftm"), run("cpu"))


def test_random_numbers_follow_the_seed() -> None:
    def drawn() -> list[Tensor]:
        torch.manual_seed(3)
        x = torch.rand(1000, device="ftm")
        return [
            t.cpu()
            for t in (
                x,
                torch.randn_like(x),
                F.dropout(x, 0.3),
                torch.randperm(50, device="ftm"),
                torch.bernoulli(x),
            )
        ]

    first, again = drawn(), drawn()
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert (
        0.45 < first[0].mean() < 0.55
        and abs(first[1].mean()) < 0.15
        and 200 < (first[2] == 0).sum() < 400
    )
