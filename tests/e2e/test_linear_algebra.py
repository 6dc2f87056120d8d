"""Factorizations and linear systems against the CPU: values, gradients, errors, and that nothing
falls back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import ftm_lazy

Function = Callable[[torch.Tensor], torch.Tensor]
SHAPES = ((4, 4), (1, 1), (2, 3, 5, 5), (0, 3, 3), (0, 0), (2, 0, 0))


def positive(matrices: torch.Tensor) -> torch.Tensor:
    return matrices @ matrices.mT + matrices.shape[-1] * torch.eye(
        matrices.shape[-1], dtype=matrices.dtype, device=matrices.device
    )


def solved(matrices: torch.Tensor) -> torch.Tensor:
    return torch.linalg.solve(matrices, matrices[..., :2].cos())


FUNCTIONS: dict[str, Function] = {
    "cholesky": lambda a: torch.linalg.cholesky(positive(a)),
    "cholesky upper": lambda a: torch.linalg.cholesky(positive(a), upper=True),
    "cholesky_solve": lambda a: torch.cholesky_solve(a.cos(), torch.linalg.cholesky(positive(a))),
    "cholesky_inverse": lambda a: torch.cholesky_inverse(torch.linalg.cholesky(positive(a))),
    "solve": solved,
    "solve by columns": lambda a: solved(a.mT),
    "solve from the right": lambda a: torch.linalg.solve(a, a[..., :2, :].cos(), left=False),
    "solve a vector": lambda a: torch.linalg.solve(a, a.cos().sum(-1)),
    "inv": torch.linalg.inv,
    "det": torch.linalg.det,
    "logabsdet": lambda a: torch.linalg.slogdet(a)[1],
    "logdet": lambda a: torch.logdet(positive(a)),
    "lu": lambda a: sum(part.square().sum((-1, -2)) for part in torch.linalg.lu(a)[1:]),
    "lu_solve": lambda a: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), a.cos()),
    "lu_solve adjoint": lambda a: torch.linalg.lu_solve(
        *torch.linalg.lu_factor(a), a.cos(), left=False, adjoint=True
    ),
    "solve_triangular": lambda a: torch.linalg.solve_triangular(positive(a), a.cos(), upper=True),
    "solve_triangular unit": lambda a: torch.linalg.solve_triangular(
        a / 4, a.cos(), upper=False, left=False, unitriangular=True
    ),
    "triangular_solve": lambda a: torch.triangular_solve(
        a.cos(), positive(a), upper=False, transpose=True
    )[0],
    "matrix_power": lambda a: torch.linalg.matrix_power(a, -2),
}


@pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(len(name))
    ftm_lazy.metrics.reset()
    for shape in SHAPES:
        matrices = torch.randn(shape, dtype=dtype) + 2 * torch.eye(shape[-1], dtype=dtype)
        results = []
        for device in ("cpu", "ftm"):
            leaf = matrices.to(device, copy=True).requires_grad_()
            made = FUNCTIONS[name](leaf)
            made.square().sum().backward()
            results.append((made.detach().cpu(), leaf.grad.cpu()))
        (value, grad), (own_value, own_grad) = results
        scale = (3e-3, 3e-4) if dtype == torch.float32 else (1e-7, 1e-8)
        size = max(1.0, float(grad.abs().max())) if grad.numel() else 1.0
        torch.testing.assert_close(own_value, value, rtol=scale[0], atol=scale[1])
        torch.testing.assert_close(own_grad / size, grad / size, rtol=scale[0], atol=scale[1])
    counters = ftm_lazy.metrics.counters()
    assert not [
        counter for counter, count in counters.items() if counter.startswith("fallback::") and count
    ]
    assert not counters["compile_failures"]


def test_factors_are_lapacks() -> None:
    """With its pivots, strides and info; of rectangular matrices and of singular ones as well."""
    torch.manual_seed(0)
    singular = torch.ones(2, 3, 3)
    singular[:, 2, 2] = 0
    for matrices in (
        torch.randn(3, 5),
        torch.randn(5, 3),
        torch.randn(2, 6, 4),
        torch.randn(40, 40),
        singular,
    ):
        for own, want in zip(
            torch.linalg.lu_factor_ex(matrices.to("ftm")),
            torch.linalg.lu_factor_ex(matrices),
            strict=True,
        ):
            torch.testing.assert_close(own.cpu(), want, rtol=1e-3, atol=1e-4)
            assert own.stride() == want.stride()
    factor, info = torch.linalg.cholesky_ex(singular.to("ftm"))
    assert info.tolist() == torch.linalg.cholesky_ex(singular)[1].tolist()
    assert factor.stride() == torch.linalg.cholesky_ex(singular)[0].stride()


@pytest.mark.parametrize("shape", [(65, 65), (2, 150, 150), (100, 170), (170, 100)])
def test_blocks_of_large_matrices(shape: tuple[int, ...]) -> None:
    """From 65 rows on, most of the work is products of blocks; so is finding a zero pivot."""
    torch.manual_seed(0)
    torch.ftm.empty_cache()  # a program for many sizes has no blocks
    matrices = torch.randn(shape, dtype=torch.float64)
    singular = matrices.clone()
    singular[..., 80:] = 0
    for a in (matrices, singular):
        want = torch.linalg.lu_factor_ex(a)
        for own, expected in zip(torch.linalg.lu_factor_ex(a.to("ftm")), want, strict=True):
            torch.testing.assert_close(own.cpu(), expected)
    count = min(shape[-2:])
    square = matrices[..., :count, :count]
    symmetric = square @ square.mT + torch.eye(count)
    for upper in (False, True):
        factor = torch.linalg.cholesky(symmetric, upper=upper)
        own = torch.linalg.cholesky(symmetric.to("ftm"), upper=upper)
        torch.testing.assert_close(own.cpu(), factor)
        for left in (False, True):
            solved = torch.linalg.solve_triangular(
                factor.to("ftm"), symmetric.to("ftm"), upper=upper, left=left
            )
            expected = torch.linalg.solve_triangular(factor, symmetric, upper=upper, left=left)
            torch.testing.assert_close(solved.cpu(), expected)
    symmetric[..., 64, 64] = -1
    assert (torch.linalg.cholesky_ex(symmetric.to("ftm"))[1] == 65).all()


def test_broadcast_batches() -> None:
    torch.manual_seed(0)
    a, right = torch.randn(2, 1, 4, 4), torch.randn(3, 4, 2)
    torch.testing.assert_close(
        torch.linalg.solve(a.to("ftm"), right.to("ftm")).cpu(),
        torch.linalg.solve(a, right),
        rtol=1e-3,
        atol=1e-4,
    )
    triangles = a.tril() + 4 * torch.eye(4)
    own = torch.linalg.solve_triangular(triangles.to("ftm"), right.to("ftm"), upper=False)
    torch.testing.assert_close(
        own.cpu(), torch.linalg.solve_triangular(triangles, right, upper=False)
    )


@pytest.mark.parametrize(
    "function",
    [
        torch.linalg.inv,
        torch.linalg.cholesky,
        lambda a: torch.linalg.solve(a, a),
        lambda a: torch.linalg.lu_factor(a),
        lambda a: torch.linalg.inv_ex(a, check_errors=True),
        lambda a: torch.linalg.cholesky_ex(a, check_errors=True),
        lambda a: torch.linalg.solve_ex(a, a, check_errors=True),
        lambda a: torch.linalg.lu_factor_ex(a, check_errors=True),
    ],
)
def test_singular_matrices_raise_where_eager_does(
    function: Callable[[torch.Tensor], object],
) -> None:
    for matrices in (torch.zeros(2, 2), torch.stack([torch.eye(2), torch.ones(2, 2)])):
        errors = []
        for device in ("cpu", "ftm"):
            with pytest.raises(RuntimeError) as raised:
                function(matrices.to(device))
            errors.append((type(raised.value), str(raised.value)))
        assert errors[0] == errors[1]
    assert torch.linalg.det(torch.ones(3, 3, device="ftm")).item() == 0
    sign, logarithm = torch.linalg.slogdet(torch.zeros(3, 3, device="ftm"))
    assert sign.item() == 0 and logarithm.item() == -float("inf")


def test_complex_matrices_run_on_the_cpu() -> None:
    torch.manual_seed(0)
    matrices = torch.randn(2, 4, 4, dtype=torch.complex64)
    for function in (
        torch.linalg.inv,
        torch.linalg.det,
        lambda a: torch.linalg.cholesky(a @ a.mH + torch.eye(4, device=a.device)),
    ):
        torch.testing.assert_close(
            function(matrices.to("ftm")).cpu(), function(matrices), rtol=1e-3, atol=1e-4
        )


@pytest.mark.parametrize("shape", [(4, 2, 5), (0, 5), (3, 5), (5,)])
def test_solutions_for_vectors_lie_in_memory_as_on_the_cpu(shape: tuple[int, ...]) -> None:
    matrices, vectors = torch.eye(5).expand(*shape, 5), torch.rand(shape)
    solved = torch.linalg.solve(matrices.to("ftm"), vectors.to("ftm"))
    assert solved.stride() == torch.linalg.solve(matrices, vectors).stride()
    torch.testing.assert_close(solved.cpu(), vectors)
