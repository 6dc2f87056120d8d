"""Random numbers: a function of seed and offset, whatever else the program does."""

from collections.abc import Callable

import pytest
import torch

from ftm_lazy import _C


def test_seed_decides() -> None:
    torch.manual_seed(5)
    first = torch.rand(8, device="ftm").tolist()
    second = torch.rand(8, device="ftm").tolist()
    torch.manual_seed(5)
    assert torch.rand(8, device="ftm").tolist() == first
    assert torch.rand(8, device="ftm").tolist() == second
    assert first != second


@pytest.mark.parametrize("seed", [-1, 2**64 - 1])
def test_seeds_are_those_of_the_cpu(seed: int) -> None:
    torch.manual_seed(seed)
    assert torch.ftm.initial_seed() == torch.initial_seed()
    with pytest.raises((RuntimeError, ValueError)):
        torch.manual_seed(2**64)


def test_state_can_be_taken_and_put_back() -> None:
    state = torch.ftm.get_rng_state()
    first = torch.randn(4, device="ftm").tolist()
    torch.ftm.set_rng_state(state)
    assert torch.randn(4, device="ftm").tolist() == first


def test_cuts_do_not_matter() -> None:
    def draw(cut: bool) -> list[list[float]]:
        torch.manual_seed(1)
        results = []
        for _ in range(3):
            results.append(torch.randn(3, device="ftm") * 2)
            if cut:
                _C._sync(True)
        return [result.tolist() for result in results]

    assert draw(cut=True) == draw(cut=False)


def test_generator_of_ones_own() -> None:
    generator = torch.Generator("ftm").manual_seed(3)
    first = torch.rand(4, generator=generator, device="ftm").tolist()
    assert torch.rand(4, generator=generator, device="ftm").tolist() != first
    generator.manual_seed(3)
    assert torch.rand(4, generator=generator, device="ftm").tolist() == first


def test_values_are_those_of_philox() -> None:
    """Known answers of Philox4x32-10: counter 0, key 0, published with the generator."""
    torch.ftm.set_rng_state(torch.zeros(16, dtype=torch.uint8))
    words = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert torch.rand(4, device="ftm").tolist() == [(word >> 8) * 2.0**-24 for word in words]


@pytest.mark.parametrize(
    ("name", "mean", "deviation"),
    [
        ("rand", 0.5, 1 / 12**0.5),
        ("randn", 0.0, 1.0),
        ("exponential", 1.0, 1.0),
        ("bernoulli", 0.3, 0.21**0.5),
        ("dropout", 1.0, 0.5),
    ],
)
def test_distributions(name: str, mean: float, deviation: float) -> None:
    x = torch.empty(40000, device="ftm")
    draws = {
        "rand": lambda: x.uniform_(),
        "randn": lambda: x.normal_(),
        "exponential": lambda: x.exponential_(),
        "bernoulli": lambda: x.bernoulli_(0.3),
        "dropout": lambda: torch.nn.functional.dropout(torch.ones_like(x), 0.2),
    }
    values = draws[name]().cpu()
    assert abs(values.mean() - mean) < 0.02
    assert abs(values.std() - deviation) < 0.02


def test_integers() -> None:
    values = torch.randint(-3, 4, (2000,), device="ftm")
    assert sorted(values.cpu().unique().tolist()) == [-3, -2, -1, 0, 1, 2, 3]
    assert sorted(torch.randperm(10, device="ftm").tolist()) == list(range(10))


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: torch.bernoulli(x + 1.5),
        lambda x: torch.bernoulli(x * torch.nan),
        lambda x: torch.zeros_like(x, dtype=torch.uint8).bernoulli_(x - 0.5),
        lambda x: torch.normal(x, x - 1),
        lambda x: torch.normal(0.0, x - 1),
        lambda x: torch.multinomial(x - 1, 1),
    ],
)
def test_what_no_draw_can_have_is_an_error(draw: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(RuntimeError) as expected:
        draw(torch.zeros(3))
    with pytest.raises(RuntimeError) as caught:
        draw(torch.zeros(3, device="ftm")).cpu()
    assert str(expected.value).splitlines()[0] in str(caught.value)


def test_complex_numbers_have_the_mean_in_both_parts() -> None:
    drawn = torch.zeros(20000, dtype=torch.complex64, device="ftm").normal_(-2, 0.5).cpu()
    for part in (drawn.real, drawn.imag):
        assert abs(part.mean().item() + 2) < 0.02
        assert abs(part.std().item() - 0.5**1.5) < 0.02
