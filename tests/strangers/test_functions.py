"""A share of the campaign on elementwise functions: the special functions in float64."""

from __future__ import annotations

from random import Random

import pytest
import torch

from strangers import functions

FLOAT64 = functions.FORMATS["float64"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [
        "i0",
        "i1",
        "i0e",
        "i1e",
        "modified_bessel_k0",
        "modified_bessel_k1",
        "scaled_modified_bessel_k0",
        "scaled_modified_bessel_k1",
        "erfinv",
        "erfcx",
        "ndtri",
        "lgamma",
        "lgamma right of 1/2",
    ],
)
def test_special_functions(name: str) -> None:
    random = Random(name)
    points = torch.cat([functions.points(random, FLOAT64) for _ in range(6)])
    assert functions.faults(name, FLOAT64, points) == []


def test_zeros_of_lgamma() -> None:
    assert torch.lgamma(torch.tensor([1.0, 2.0], dtype=torch.float64, device="ftm")).tolist() == [
        0,
        0,
    ]


def test_quantiles_of_tiny_probabilities() -> None:
    x = torch.tensor([2.5e-32, 1e-200, 1e-299, 1e-307, 5e-324], dtype=torch.float64)
    torch.testing.assert_close(
        torch.special.ndtri(x.to("ftm")).cpu(), torch.special.ndtri(x), rtol=1e-14, atol=0
    )


def test_sign_of_tanhshrink_near_zero() -> None:
    x = torch.logspace(-20, -4, 4000, dtype=torch.float64, device="ftm")
    assert (torch.nn.functional.tanhshrink(x) >= 0).all()
