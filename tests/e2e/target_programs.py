"""Run by ``test_target.py`` in a process of its own: results and gradients on ftm beside the
CPU's."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

import ftm_lazy  # noqa: F401  (registers the device)


def deep(x: Tensor, *weights: Tensor) -> Tensor:
    """Products behind each other: each kernel takes over GSM from the last one."""
    for w in weights:
        x = torch.tanh(x @ w)
    return x


def masked(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention as models write it by hand."""
    later = torch.ones(q.shape[-2], k.shape[-2], device=q.device).triu(1).bool()
    return F.softmax((q @ k.mT * 0.2).masked_fill(later, float("-inf")), -1) @ v


def stem(x: Tensor, w: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """How a network for images begins."""
    image = F.batch_norm(
        F.conv2d(x, w, stride=2, padding=3), None, None, scale, shift, training=True
    )
    return F.max_pool2d(F.relu(image), 3, 2, 1)


r = torch.randn
PROGRAMS: dict[str, tuple[Callable[..., Tensor], list[tuple[int, ...]], torch.dtype, float]] = {
    "linear": (
        lambda x, w, b: F.relu(F.linear(x, w, b)),
        [(130, 70), (200, 70), (200,)],
        torch.float32,
        2e-4,
    ),
    "residual": (
        lambda x, w, b: F.gelu(F.linear(x, w, b)) + x,
        [(3, 65, 96), (96, 96), (96,)],
        torch.float32,
        2e-4,
    ),
    "addmm": (
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2.0),
        [(61, 131), (61, 83), (83, 131)],
        torch.float32,
        2e-4,
    ),
    "batch": (
        lambda a, b: a @ b.transpose(-1, -2),
        [(3, 4, 37, 50), (41, 50)],
        torch.float32,
        2e-4,
    ),
    "convolution": (
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        [(2, 5, 13, 11), (7, 5, 3, 3), (7,)],
        torch.float32,
        2e-4,
    ),
    "strided": (
        lambda x, w: F.conv2d(x, w, stride=2, padding=1),
        [(2, 16, 12, 12), (20, 16, 3, 3)],
        torch.float32,
        2e-4,
    ),
    "stem": (stem, [(2, 3, 61, 58), (24, 3, 7, 7), (24,), (24,)], torch.float32, 1e-3),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(2, 3, 65, 32)] * 3,
        torch.float32,
        2e-4,
    ),
    "masked": (masked, [(2, 3, 65, 32), (2, 3, 40, 32), (2, 3, 40, 24)], torch.float32, 2e-4),
    "masked in halves": (masked, [(2, 65, 32), (2, 70, 32), (2, 70, 16)], torch.bfloat16, 5e-2),
    "deep": (deep, [(200, 128), *[(128, 128)] * 4], torch.float32, 2e-4),
    "bfloat16": (
        lambda x, w, b: F.linear(x, w, b),
        [(70, 90), (50, 90), (50,)],
        torch.bfloat16,
        3e-2,
    ),
    "float16": (lambda x, w: x @ w, [(70, 90), (90, 50)], torch.float16, 1e-2),
    "float64": (lambda x, w: x @ w.t(), [(300, 90), (50, 90)], torch.float64, 1e-10),
}


def run(f: Callable[..., Tensor], inputs: list[Tensor], device: str) -> list[Tensor]:
    """The result, and its gradients to all inputs."""
    leaves = [x.to(device).requires_grad_() for x in inputs]
    y = f(*leaves)
    weight = torch.linspace(-1, 1, y.numel()).reshape(y.shape).to(device)
    return [t.detach().cpu() for t in (y, *torch.autograd.grad((y.float() * weight).sum(), leaves))]


def main() -> None:
    """Raises AssertionError with the program's name where results differ."""
    torch.manual_seed(0)
    for name, (f, shapes, dtype, tolerance) in PROGRAMS.items():
        inputs = [
            (r(shape) / (12 if name == "deep" and number else 1)).to(dtype)
            for number, shape in enumerate(shapes)
        ]
        for wanted, got in zip(run(f, inputs, "cpu"), run(f, inputs, "ftm"), strict=True):
            scale = wanted.abs().max().item()
            torch.testing.assert_close(
                got,
                wanted,
                rtol=0,
                atol=tolerance * scale,
                msg=lambda text, at=name: f"{at}: {text}",
            )
    integers = [torch.randint(-9, 9, shape) for shape in ((33, 44), (44, 55))]
    for dtype in (torch.int64, torch.int32):
        a, b = (x.to(dtype) for x in integers)
        assert torch.equal((a.to("ftm") @ b.to("ftm")).cpu(), a @ b), dtype


if __name__ == "__main__":
    main()
