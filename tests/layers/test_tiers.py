"""Tests of `tests/tiers.py`: which files belong to a tier, and in what order files start."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

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


@pytest.mark.parametrize(("sizes", "divisor"), [((11, 5), 3), ((3, 3, 4, 3, 2), 5), ((9, 3, 5), 4)])
def test_chosen_combinations_have_every_value(sizes: tuple[int, ...], divisor: int) -> None:
    mark = SimpleNamespace(args=(divisor,))
    every = [
        SimpleNamespace(
            path=TESTS, originalname="test", places=x, get_closest_marker=lambda _: mark
        )
        for x in itertools.product(*map(range, sizes))
    ]
    found = tiers.chosen(every)
    assert len(found) == -(-len(every) // divisor)
    for number, size in enumerate(sizes):
        assert {item.places[number] for item in found} == set(range(size))
