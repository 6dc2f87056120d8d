"""Campaign: random linear systems and factorizations, with gradients, against the CPU.

Each case draws an operation, batch dimensions, a size up to 130, a dtype and a layout. Matrices are
well conditioned, so that a wrong element stands out from rounding. One case in eight has singular
matrices, whose errors must agree.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import torch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from strangers import campaign

COUNT = 1000

Operation = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def positive(a: torch.Tensor) -> torch.Tensor:
    return a @ a.mT / a.shape[-1] + torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


OPERATIONS: dict[str, Operation] = {
    "cholesky": lambda a, b: torch.linalg.cholesky(positive(a)),
    "cholesky_ex": lambda a, b: torch.linalg.cholesky_ex(positive(a), upper=True)[0],
    "cholesky_solve": lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(positive(a))),
    "cholesky_inverse": lambda a, b: torch.cholesky_inverse(torch.linalg.cholesky(positive(a))),
    "solve": torch.linalg.solve,
    "solve right": lambda a, b: torch.linalg.solve(a, b.mT, left=False),
    "solve_ex": lambda a, b: torch.linalg.solve_ex(a, b)[0],
    "inv": lambda a, b: torch.linalg.inv(a) @ b,
    "inv_ex": lambda a, b: torch.linalg.inv_ex(a)[0],
    "det": lambda a, b: torch.linalg.det(a / 2),
    "slogdet": lambda a, b: torch.linalg.slogdet(a)[1],
    "lu": lambda a, b: torch.linalg.lu(a)[1] @ b,
    "lu_solve": lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b),
    "lu_solve adjoint": lambda a, b: torch.linalg.lu_solve(
        *torch.linalg.lu_factor(a), b.mT, left=False, adjoint=True
    ),
    "triangular": lambda a, b: torch.linalg.solve_triangular(positive(a), b, upper=True),
    "triangular right": lambda a, b: torch.linalg.solve_triangular(
        positive(a), b.mT, upper=False, left=False
    ),
    "triangular unit": lambda a, b: torch.linalg.solve_triangular(
        a / 9, b, upper=False, unitriangular=True
    ),
}

TOLERANCE = {torch.float32: 2e-3, torch.float64: 1e-8}


def check(random: Random) -> str | None:
    """Try one random case; return what is wrong with it, or None."""
    name, n, columns = (
        random.choice(sorted(OPERATIONS)),
        random.choice((0, 1, 2, 3, 5, 8, 17, 40, 70, 130)),
        random.choice((1, 3)),
    )
    batch = random.choice(((), (), (2,), (3, 2), (0,)))
    dtype = random.choice((torch.float32, torch.float64))
    generator = torch.Generator().manual_seed(random.randrange(1 << 30))
    a = torch.randn(*batch, n, n, generator=generator, dtype=dtype) / max(
        n, 1
    ) ** 0.5 + 2 * torch.eye(n, dtype=dtype)
    if random.random() < 0.5:
        a = a.mT
    if random.random() < 0.125:
        a = torch.zeros_like(a)
    b = torch.randn(*batch, n, columns, generator=generator, dtype=dtype)
    if n > 64:
        torch.ftm.empty_cache()  # a program for many sizes has no blocks
    outcomes = [outcome(OPERATIONS[name], a, b, device) for device in ("cpu", "ftm")]
    described = f"{name} of {tuple(a.shape)} {dtype}, strides {a.stride()}"
    if isinstance(outcomes[0], str) or isinstance(outcomes[1], str):
        return (
            None
            if outcomes[0] == outcomes[1]
            else f"{described}: cpu {outcomes[0]!r}, ftm {outcomes[1]!r}"
        )
    for label, want, own in zip(
        ("value", "gradient of a", "gradient of b"), *outcomes, strict=True
    ):
        finite = want[want.isfinite()]
        scale = max(1.0, float(finite.abs().max())) if finite.numel() else 1.0
        if not torch.allclose(
            own / scale,
            want / scale,
            rtol=TOLERANCE[dtype],
            atol=TOLERANCE[dtype] / 10,
            equal_nan=True,
        ):
            return f"{described}: {label} differs by up to {float((own - want).abs().max()):.3g}"
    return None


def outcome(
    operation: Operation, a: torch.Tensor, b: torch.Tensor, device: str
) -> list[torch.Tensor] | str:
    """Value and gradients on the CPU, or the message of the error."""
    leaves = [x.detach().to(device).requires_grad_() for x in (a, b)]
    try:
        made = operation(*leaves)
        gradients = torch.autograd.grad(made.square().sum(), leaves, allow_unused=True)
    except RuntimeError as error:
        return str(error)
    used = [
        torch.zeros_like(leaf) if gradient is None else gradient
        for leaf, gradient in zip(leaves, gradients, strict=True)
    ]
    return [made.detach().cpu(), *(gradient.cpu() for gradient in used)]


if __name__ == "__main__":
    campaign.main("linear_systems", check, COUNT)
