"""A share of the campaigns on strides and outputs that every run of the tests can afford."""

from __future__ import annotations

from random import Random

import pytest

from strangers import outputs, strides


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(2))
def test_strides(seed: int) -> None:
    for case in range(40):
        assert strides.check(Random(1000 * seed + case)) is None, (
            f"--seed {1000 * seed + case} --count 1"
        )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(2))
def test_outputs(seed: int) -> None:
    for case in range(25):
        assert outputs.check(Random(1000 * seed + case)) is None, (
            f"--seed {1000 * seed + case} --count 1"
        )
