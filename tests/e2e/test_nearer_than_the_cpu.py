"""Values that are nearer to the truth on ftm than on the CPU; docs/ops.md lists them."""

from __future__ import annotations

import mpmath as mp
import pytest
import torch

from strangers import functions

MENDED = {"sinh": "2.14", "cosh": "2.14"}
"""The version of PyTorch since which the CPU is as near."""


@pytest.mark.parametrize(
    ("name", "dtype", "low", "high"),
    [
        ("bessel_j0", "float64", 6.0, 99.0),
        ("bessel_j1", "float64", 6.0, 99.0),
        ("sinh", "float32", 88.8, 89.41),
        ("cosh", "float32", 88.8, 89.41),
        ("trigamma", "float64", -20.0, -0.1),
    ],
)
def test_functions(name: str, dtype: str, low: float, high: float) -> None:
    form, function = functions.FORMATS[dtype], functions.FUNCTIONS[name]
    x = torch.linspace(low, high, 64, dtype=form.dtype)
    worst = {}
    for device in ("ftm", "cpu"):
        found = function.torch(x.to(device)).cpu().tolist()
        worst[device] = max(
            functions.error(got, function.truth(mp.mpf(at)), form, function.scale)
            for at, got in zip(x.tolist(), found, strict=True)
        )
    assert worst["ftm"] <= function.bound
    is_mended = name in MENDED and torch.__version__ >= MENDED[name]
    assert (worst["cpu"] > 1000) != is_mended


def test_gradients_of_embedding_bags_that_are_scaled_by_frequency() -> None:
    """A row's gradient is the mean over its occurrences in the batch. The CPU divides by counts of
    another bag."""
    index, offsets = torch.tensor([1, 2, 1, 3, 1, 2]), torch.tensor([0, 2])
    bag = torch.nn.EmbeddingBag(5, 2, mode="sum", scale_grad_by_freq=True).to("ftm")
    bag(index.to("ftm"), offsets.to("ftm")).sum().backward()
    assert bag.weight.grad.cpu().tolist() == [[0, 0], [1, 1], [1, 1], [1, 1], [0, 0]]


def test_subnormal_arguments() -> None:
    """Reciprocals and halves of the smallest numbers are infinite and 0."""
    for name in ("lgamma", "bessel_y0", "bessel_y1", "modified_bessel_k0"):
        for form in (functions.FORMATS["float32"], functions.FORMATS["float64"]):
            smallest = 2.0 ** (form.lowest - form.digits + 1)
            assert (
                functions.faults(
                    name,
                    form,
                    torch.tensor([smallest, 3 * smallest, 1e6 * smallest], dtype=form.dtype),
                )
                == []
            )
    quantile = torch.special.ndtri(torch.tensor([1.4e-45, 1e-40]).to("ftm")).cpu()
    torch.testing.assert_close(quantile, torch.special.ndtri(torch.tensor([1.4e-45, 1e-40])))


def test_chebyshev_polynomials() -> None:
    """Order 1 is exact. NaN gives NaN; the CPU gives the value of another element."""
    x = torch.tensor([0.0, 0.3, -0.7, 1.0, -2.5], dtype=torch.float64)
    for kind, line in {"t": x, "u": 2 * x, "v": 2 * x - 1, "w": 2 * x + 1}.items():
        function = getattr(torch.special, f"chebyshev_polynomial_{kind}")
        assert torch.equal(function(x.to("ftm"), 1).cpu(), line)
    unknown = torch.tensor([3.0, float("nan")], dtype=torch.float64)
    assert torch.special.chebyshev_polynomial_u(unknown.to("ftm"), 2).isnan().tolist() == [
        False,
        True,
    ]
