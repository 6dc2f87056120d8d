"""Products compiled for the real target reach what experts reached by hand: the rows of ``benchmarks/target.py``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import target


@pytest.mark.parametrize("row", [row for row in target.ROWS if row.wanted is not None], ids=lambda row: row.name)
def test_compiled_product_reaches_the_published_figure(row: target.Row) -> None:
    assert target.measure(row).of_peak >= row.wanted


def test_products_that_nobody_tuned_for() -> None:
    found = target.summary([target.measure(row) for row in target.random_rows(40, seed=11)])
    assert found["median"] >= 85
    assert found["tenth"] >= 65
