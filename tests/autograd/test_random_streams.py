"""Random numbers as users meet them: seeds, states, generators, forks; the same bits however a
program is run; sound
distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor

import ftm_lazy
from ftm_lazy import _C

N = 20000


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape or (N,), dtype=dtype, device="ftm")


CONTINUOUS: dict[str, tuple[Callable[[], Tensor], Any]] = {
    "uniform": (lambda: empty().uniform_(-1, 3), stats.uniform(-1, 4)),
    "normal": (lambda: empty().normal_(1, 2), stats.norm(1, 2)),
    "normal f64": (lambda: empty(dtype=torch.float64).normal_(), stats.norm()),
    "normal of tensors": (
        lambda: torch.normal(empty().fill_(1), empty().fill_(0.5)),
        stats.norm(1, 0.5),
    ),
    "complex": (
        lambda: torch.view_as_real(torch.randn(N, dtype=torch.complex64, device="ftm")).reshape(-1),
        stats.norm(0, 0.5**0.5),
    ),
    "exponential": (lambda: empty().exponential_(2), stats.expon(scale=0.5)),
    "cauchy": (lambda: empty().cauchy_(1, 2), stats.cauchy(1, 2)),
    "log normal": (
        lambda: empty().log_normal_(0.5, 0.25),
        stats.lognorm(0.25, scale=torch.tensor(0.5).exp().item()),
    ),
    "rrelu": (
        lambda: F.rrelu(-torch.ones(N, device="ftm"), training=True).neg(),
        stats.uniform(1 / 8, 1 / 3 - 1 / 8),
    ),
    "gumbel": (lambda: -empty().exponential_().log(), stats.gumbel_r()),
    "gamma": (
        lambda: torch.distributions.Gamma(torch.full((N,), 2.0, device="ftm"), 1.0).sample(),
        stats.gamma(2),
    ),
}


def test_continuous_distributions() -> None:
    """Kolmogorov and Smirnov: the distance from the distribution function is what chance makes of
    it."""
    drawn = {name: draw() for name, (draw, _) in CONTINUOUS.items()}
    for name, values in drawn.items():
        test = stats.kstest(values.cpu().double().numpy(), CONTINUOUS[name][1].cdf)
        assert test.pvalue > 1e-3, (name, test)


def test_discrete_distributions() -> None:
    weights = torch.tensor([1.0, 0, 3, 2], device="ftm")
    drawn = {
        "randint": (torch.randint(0, 6, (N,), device="ftm"), [1 / 6] * 6),
        "bernoulli": (empty(dtype=torch.int64).bernoulli_(0.3), [0.7, 0.3]),
        "bernoulli of tensor": (torch.bernoulli(empty().fill_(0.8)).long(), [0.2, 0.8]),
        "dropout": (F.dropout(empty().fill_(1), 0.25).ne(0).long(), [0.25, 0.75]),
        "multinomial": (torch.multinomial(weights, N, replacement=True), [1 / 6, 0, 1 / 2, 1 / 3]),
        "race": (torch.multinomial(weights.expand(N, 4), 1)[:, 0], [1 / 6, 0, 1 / 2, 1 / 3]),
        "permutation": (
            torch.stack([torch.randperm(3, device="ftm") for _ in range(60)])
            .mul(torch.tensor([9, 3, 1], device="ftm"))
            .sum(1),
            [1 / 6 if k in (5, 7, 11, 15, 19, 21) else 0 for k in range(22)],
        ),
        "geometric": (
            empty().geometric_(0.5).clamp(max=5).long() - 1,
            [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16],
        ),
        "poisson": (
            torch.poisson(empty().fill_(1.0)).clamp(max=3).long(),
            [*(stats.poisson(1).pmf(k) for k in range(3)), stats.poisson(1).sf(2)],
        ),
    }
    for name, (values, shares) in drawn.items():
        counts = torch.bincount(values.cpu(), minlength=len(shares)).double()
        assert len(counts) == len(shares), name
        expected = torch.tensor(shares, dtype=torch.float64) * len(values)
        assert counts[expected == 0].sum() == 0, name
        chi = stats.chisquare(counts[expected > 0], expected[expected > 0])
        assert chi.pvalue > 1e-3, (name, chi)


def test_streams_are_independent() -> None:
    """Two draws in a row, and two generators, have nothing to do with each other."""
    other = torch.Generator("ftm").manual_seed(1)
    columns = [
        empty().normal_(),
        empty().normal_(),
        empty().normal_(generator=other),
        empty().uniform_(-1, 1),
    ]
    correlation = torch.corrcoef(torch.stack([c.cpu() for c in columns]))
    assert (correlation - torch.eye(4)).abs().max() < 5 / N**0.5


def draws() -> list[Tensor]:
    x = empty(6, 50)
    return [x.uniform_() + 0, torch.randn(50, 6, device="ftm").t(), torch.rand(5000, device="ftm"), torch.randperm(100, device="ftm"),
            torch.randint(0, 2**40, (7,), device="ftm"), torch.bernoulli(x), F.dropout(x, 0.5), x.geometric_(0.3).clone(),
            torch.multinomial(x[:, :9].abs() + 1, 20, replacement=True), torch.multinomial(x[:, :9].abs() + 1, 5)]  # fmt: skip


def brought(values: list[Tensor]) -> list[Tensor]:
    return [v.cpu() for v in values]


def test_same_bits_alone_and_together() -> None:
    """Alone, in one program, and fused with what follows."""
    torch.manual_seed(11)
    together = brought(draws())
    torch.manual_seed(11)
    fused = brought([d * 1 if d.dtype.is_floating_point else d + 0 for d in draws()])
    torch.manual_seed(11)
    _C._set_trace_limit(1)
    try:
        alone = brought(draws())
    finally:
        _C._set_trace_limit(20000)
    assert all(map(torch.equal, together, alone))
    assert all(map(torch.equal, together, fused))


def test_same_bits_from_the_reference_executor() -> None:
    """What an operation-by-operation run draws is what the program draws; functions may differ in
    their last bits."""
    torch.manual_seed(12)
    machine = brought(draws())
    torch.manual_seed(12)
    _C._set_executor("reference")
    try:
        reference = brought(draws())
    finally:
        _C._set_executor("machine")
    for k, (ours, theirs) in enumerate(zip(machine, reference, strict=True)):
        if k == 1:  # normal: logarithm and cosine
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
        else:
            assert torch.equal(ours, theirs), k


def test_a_fallback_draws_from_the_device() -> None:
    """What is not compiled follows the device's seed, and leaves the CPU's own stream alone."""
    rate = empty(8).fill_(4)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = [
        torch.poisson(rate).tolist(),
        torch._standard_gamma(rate).tolist(),
        torch.binomial(rate, rate / 8).tolist(),
    ]
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.poisson(rate).tolist() != first[0]
    torch.ftm.manual_seed(3)
    assert [
        torch.poisson(rate).tolist(),
        torch._standard_gamma(rate).tolist(),
        torch.binomial(rate, rate / 8).tolist(),
    ] == first
    own = torch.Generator("ftm").manual_seed(9)
    drawn = torch.poisson(rate, generator=own).tolist()
    assert torch.poisson(rate, generator=own.manual_seed(9)).tolist() == drawn


def test_states() -> None:
    own = torch.Generator("ftm")
    own.manual_seed(5)
    assert own.initial_seed() == 5
    state = own.get_state()
    first = torch.rand(3, device="ftm", generator=own).tolist()
    copy = torch.Generator("ftm")
    copy.set_state(state)
    assert torch.rand(3, device="ftm", generator=copy).tolist() == first

    with pytest.raises(ValueError, match="RNG state"):
        torch.ftm.set_rng_state(torch.zeros(3, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match="'ftm' device type for generator"):
        torch.rand(3, device="ftm", generator=torch.Generator("cpu"))
    every = torch.ftm.get_rng_state_all()
    drawn = torch.rand(2, device="ftm").tolist()
    torch.ftm.set_rng_state_all(every)
    assert torch.rand(2, device="ftm").tolist() == drawn


def test_forks() -> None:
    torch.manual_seed(1)
    state = torch.ftm.get_rng_state()
    with torch.random.fork_rng(device_type="ftm"):
        torch.manual_seed(77)
        torch.rand(5, device="ftm")
    assert torch.equal(torch.ftm.get_rng_state(), state)
    with torch.random.fork_rng(devices=[0], device_type="ftm"):
        torch.rand(5, device="ftm")
    assert torch.equal(torch.ftm.get_rng_state(), state)
    assert torch.initial_seed() == torch.ftm.initial_seed() == 1
    torch.seed()
    assert torch.ftm.initial_seed() == torch.initial_seed() != 1


def test_weights_that_are_none() -> None:
    """As on the CPU: no sample of what is no distribution."""
    for weights, told in (
        ([0.5, -1.0], "inf`, `nan` or element < 0"),
        ([1.0, float("nan")], "inf`, `nan`"),
        ([0.0, 0.0], "sum of probabilities <= 0"),
    ):
        for replacement in (True, False):
            with pytest.raises(RuntimeError, match=told):
                torch.multinomial(
                    torch.tensor(weights, device="ftm"), 1, replacement=replacement
                ).tolist()
    with pytest.raises(RuntimeError, match="cannot sample n_sample > prob_dist.size"):
        torch.multinomial(torch.ones(2, device="ftm"), 3)


def test_out_of_another_dtype() -> None:
    p = empty(50).uniform_()
    drawn = torch.bernoulli(p, out=torch.empty(0, dtype=torch.int64, device="ftm"))
    assert drawn.dtype == torch.int64
    assert drawn.shape == p.shape
    assert set(drawn.tolist()) == {0, 1}


def test_nothing_of_it_falls_back() -> None:
    ftm_lazy.metrics.reset()
    brought(draws())
    brought([torch.rand((), device="ftm"), torch.randn(1, 1, device="ftm"), F.dropout(torch.ones((), device="ftm")), torch.randperm(1, device="ftm"),
             torch.randint(5, (), device="ftm"), torch.bernoulli(torch.ones((), device="ftm")), F.rrelu(torch.ones((), device="ftm"), training=True),
             empty().cauchy_(), empty().log_normal_(), F.alpha_dropout(empty(3, 3).fill_(1), 0.5, training=True),
             F.dropout2d(empty(2, 3, 4, 4).fill_(1)), F.feature_alpha_dropout(empty(2, 3, 4).fill_(1), 0.5, training=True),
             F.gumbel_softmax(empty(3, 4).fill_(1), hard=True)])  # fmt: skip
    counters = ftm_lazy.metrics.counters()
    assert not {
        n: c for n, c in counters.items() if c and n.startswith(("fallback", "compile_failures"))
    }
