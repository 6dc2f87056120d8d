"""Random ops stay in their documented intervals, in every dtype (campaign:
``tests/strangers/draws.py``)."""

from random import Random

import pytest
import torch

from strangers import draws

HALVES = (torch.float16, torch.bfloat16)
CASES = [(name, dtype) for name, (_, dtypes) in draws.DISTRIBUTIONS.items() for dtype in dtypes]


@pytest.mark.filterwarnings("ignore:.*out of bounds")
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_a_sample_fits_its_distribution(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(11)
    draw, _ = draws.DISTRIBUTIONS[name]
    assert draws.fault(draw(Random(name), dtype), dtype) is None


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("bounds", [(0, 1), (1, 2), (-2, -1), (-1, 0), (0.1, 0.3), (100, 103)])
def test_uniform_excludes_its_upper_bound(dtype: torch.dtype, bounds: tuple[float, float]) -> None:
    torch.manual_seed(3)
    low, high = torch.tensor(bounds, dtype=dtype)
    drawn = torch.empty(100_000, dtype=dtype, device="ftm").uniform_(*bounds).cpu()
    assert drawn.min() >= low
    assert drawn.max() < high


@pytest.mark.parametrize("dtype", HALVES)
def test_every_half_number_has_the_share_of_its_interval(dtype: torch.dtype) -> None:
    """A number stands for all up to the next one: no number near the upper bound is drawn more
    often than its neighbours."""
    torch.manual_seed(5)
    drawn = torch.rand(200_000, dtype=dtype, device="ftm").cpu().double()
    step = torch.finfo(dtype).eps / 2  # between neighbours in [1/2, 1)
    upper = (
        ((drawn[drawn >= 0.5] - 0.5) / step).long().bincount(minlength=round(0.5 / step)).double()
    )
    expected = len(drawn) * step
    chi_square = ((upper - expected) ** 2 / expected).sum().item()
    assert abs(chi_square - len(upper)) < 6 * (2 * len(upper)) ** 0.5


@pytest.mark.parametrize("dtype", HALVES)
def test_transforms_of_a_uniform_number_are_finite_and_in_range(dtype: torch.dtype) -> None:
    torch.manual_seed(7)
    u = torch.rand(100_000, dtype=dtype, device="ftm")
    assert (-torch.log(1 - u)).isfinite().all()
    assert (u * 10).long().max() < 10


def test_uniform_of_equal_bounds() -> None:
    assert (torch.empty(5, dtype=torch.bfloat16, device="ftm").uniform_(1, 1) == 1).all()


@pytest.mark.parametrize("dtype", draws.FLOATS)
def test_exponential_is_positive_unless_its_rate_is_infinite(dtype: torch.dtype) -> None:
    torch.manual_seed(9)
    x = torch.empty(100_000, dtype=dtype, device="ftm")
    assert (x.exponential_(1e4) > 0).all()
    assert (x.exponential_(float("inf")) == 0).all()


@pytest.mark.filterwarnings("ignore:.*out of bounds")
@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [(torch.bfloat16, 250, 260), (torch.bfloat16, 257, 1000), (torch.float16, -5000, -4097)],
)
def test_integers_that_the_dtype_does_not_hold(dtype: torch.dtype, low: int, high: int) -> None:
    torch.manual_seed(13)
    drawn = torch.empty(20_000, dtype=dtype, device="ftm").random_(low, high).cpu().double()
    assert drawn.min() >= low
    assert drawn.max() < high


def test_floats_cover_all_of_64_bits() -> None:
    torch.manual_seed(15)
    drawn = torch.empty(1000, device="ftm").random_(-(2**63), None)
    assert drawn.min() < -(2.0**62)
    assert drawn.max() > 2.0**62
