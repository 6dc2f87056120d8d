"""A few cases of the campaign of random linear systems."""

from __future__ import annotations

from random import Random

import pytest

from strangers import linear_systems


@pytest.mark.parametrize("seed", range(12))
def test_random_system(seed: int) -> None:
    assert linear_systems.check(Random(seed)) is None
