"""Matrix products on the real target are as fast as hand-written kernels.

The shapes are the rows of ``benchmarks/target.py``.
"""

from __future__ import annotations

import statistics
import sys
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import scaling
import target
import target_convolutions
import target_steps


@pytest.mark.parametrize(
    "row", [row for row in target.ROWS if row.wanted is not None], ids=lambda row: row.name
)
def test_compiled_product_reaches_the_published_figure(row: target.Row) -> None:
    assert target.measure(row).of_peak >= row.wanted


def test_products_without_tuning() -> None:
    found = target.summary([target.measure(row) for row in target.random_rows(40, seed=11)])
    assert found["median"] >= 85
    assert found["tenth"] >= 70


CONVOLUTIONS = {
    "forward 16x64x8x8 to 64, 3x3,": 56, "forward 16x3x32x32 to 64, 7x7": 66,
    "forward 16x256x2x2 to 512, 1x1": 70, "forward 16x128x4x4 to 256, 3x3 stride": 63,
    "weight 16x256x2x2 to 256, 3x3,": 72, "weight 16x64x8x8 to 128, 3x3 stride": 34,
    "weight 16x3x32x32 to 64, 7x7": 47, "input 16x512x1x1 to 512, 3x3,": 85,
    "input 16x64x8x8 to 64, 3x3,": 49, "input 16x64x8x8 to 128, 3x3 stride": 20,
    "input 16x64x8x8 to 128, 1x1 stride": 30, "input 16x256x2x2 to 512, 1x1": 46,
}  # fmt: skip
"""Percent of the roofline, of images of 32x32."""

of_roofline = cache(lambda row: target_convolutions.measure(row).of_roofline)
"""Percent that a convolution reaches."""

MEDIANS = {"forward": 74, "input": 75, "weight": 70}
"""Percent of the roofline, of images of 224x224 and of 32x32."""


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_read_windows_in_place(name: str) -> None:
    (row,) = [row for row in target_convolutions.convolutions((32,)) if name in row.name]
    assert of_roofline(row) >= CONVOLUTIONS[name]


@pytest.mark.parametrize("direction", MEDIANS)
def test_medians_of_all_convolutions(direction: str) -> None:
    rows = [row for row in target_convolutions.convolutions() if row.direction == direction]
    assert statistics.median(map(of_roofline, rows)) >= MEDIANS[direction]


STORED = {result.name: result for result in target_steps.stored()}
"""Whole steps and attention, as ``benchmarks/target_steps.py --json`` stored them."""


@pytest.mark.parametrize("name", STORED)
def test_steps_and_attention_take_no_longer_than_what_is_stored(name: str) -> None:
    (row,) = target_steps.rows(name)
    found, before = target_steps.measure(row, "m7032", 8), STORED[name]
    assert found.milliseconds <= 1.01 * before.milliseconds
    assert found.ddr_bytes <= 1.01 * before.ddr_bytes
    if "attention" in name:
        assert set(found.kinds) <= {"matrix", "barriers and calls"}, "one kernel"


@pytest.mark.parametrize("name", STORED)
def test_the_document_has_what_is_stored(name: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / "target.md").read_text()
    assert target_steps.documented(STORED[name]) in text.splitlines()


SCALED = {result.name: result for result in scaling.stored()}
"""Steps on many machines, as ``benchmarks/scaling.py --json`` stored them."""


@pytest.mark.parametrize("name", SCALED)
def test_steps_on_many_machines_take_no_longer_than_what_is_stored(name: str) -> None:
    found, before = scaling.measure(name, "m7032"), SCALED[name]
    for strategy, stored in zip(found.strategies, before.strategies, strict=True):
        for row, expected in zip(strategy.rows, stored.rows, strict=True):
            assert row.ranks == expected.ranks
            assert row.seconds <= 1.01 * expected.seconds
