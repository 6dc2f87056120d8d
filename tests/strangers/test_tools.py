"""A small part of the campaign of tools.py."""

from __future__ import annotations

from random import Random

import pytest

from strangers import tools


@pytest.mark.parametrize("seed", range(0, 40, 10))
def test_no_command_ends_with_a_traceback(seed: int) -> None:
    faults = [tools.check(Random(number), share_in_shell=0.0) for number in range(seed, seed + 10)]
    assert [fault for fault in faults if fault] == []
