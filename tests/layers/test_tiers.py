"""Tests of `tests/tiers.py`: which files belong to a tier, and in what order files start."""

from __future__ import annotations

from pathlib import Path

import tiers

TESTS = Path(tiers.__file__).parent


def test_long_files_exist():
    missing = [name for name in tiers.LONG if not (TESTS / name).is_file()]
    assert not missing


def test_long_files_start_first_and_then_those_with_most_tests():
    long = TESTS / tiers.LONG[1]
    few, many = TESTS / "a" / "test_few.py", TESTS / "b" / "test_many.py"
    order = tiers.start_order([few, many, long, many])
    assert sorted(order, key=order.__getitem__) == [long, many, few]
