"""Waves of panels on cores, and the DDR bandwidth of a core: the last wave uses fewer cores."""

from __future__ import annotations

import pytest

from ftm_backend.midend.schedule.gemm.wave_quantization import ddr_share, waves
from ftm_backend.target import presets

M7032 = presets.load("m7032")
GIGA = 1e9


def test_the_last_wave_has_what_is_left() -> None:
    assert waves(10, 2, 8, 5.0) == ((8, 0.5), (2, 0.5))
    assert waves(16, 2, 8, 8.0) == ((8, 0.5), (8, 0.5))
    assert waves(3, 1, 8, 3.0) == ((3, 0), (3, 1))


def test_blocks_that_are_not_full_count_as_what_they_hold() -> None:
    """Nine blocks and a half on eight groups."""
    (full, _), (left, _) = waves(10, 2, 8, 9.5 / 2)
    assert full == pytest.approx(7.6)
    assert left == pytest.approx(1.9)


def test_few_cores_do_not_take_all_of_the_bandwidth() -> None:
    """34 GB/s for eight cores are 4.25 each; two of them take 14 each at most. Over both waves that
    is 6.5, not a fifth of 34."""
    rate, active = ddr_share(
        M7032, lambda rows, columns: rows * columns, waves(10, 2, 8, 5.0), waves(1, 1, 1, 1.0)
    )
    assert rate * M7032.clock_hz / GIGA == pytest.approx(2 / (1 / 4.25 + 1 / 14))
    assert active == 5
