"""A part of the campaign `strides` that every run of the tests can afford."""

from __future__ import annotations

from random import Random

import pytest

from strangers import strides


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(4))
def test_strides(seed: int) -> None:
    for case in range(40):
        assert strides.check(Random(1000 * seed + case)) is None, (
            f"--seed {1000 * seed + case} --count 1"
        )
