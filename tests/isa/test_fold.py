"""FOLD: the machine computes its formula, and so does its expansion, whose cost is what is
charged."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import pytest

from ftm_backend.target import cost_rules, op_costs
from ftm_backend.target.instruction_table import BY_NAME
from ftm_backend.target.macros import col2im
from ftm_backend.target.macros.macro_simulator import MacroSimulator
from isa.tile_programs import FAMILY, compute, numbers, unit

FOLDS = [
    # for each dimension: taps, their distance, windows, their distance, size, before it; channels,
    # images
    ([(3, 1, 5, 1, 5, 1)], 2, 3),
    ([(3, 1, 4, 2, 7, 1)], 1, 1),
    ([(3, 1, 7, 2, 14, 1), (3, 1, 7, 2, 14, 1)], 3, 2),
    ([(1, 1, 4, 2, 8, 0), (1, 1, 4, 2, 8, 0)], 5, 2),
    ([(7, 1, 6, 2, 12, 3), (7, 1, 6, 2, 12, 3)], 1, 2),
    ([(3, 1, 8, 1, 8, 1), (3, 1, 8, 1, 8, 1)], 2, 3),
    ([(2, 2, 3, 3, 9, 0), (3, 2, 4, 1, 6, 1)], 2, 1),
    ([(3, 1, 1, 1, 1, 1), (3, 1, 1, 1, 1, 1)], 3, 40),
    ([(2, 1, 3, 4, 11, -1), (2, 1, 9, 1, 2, 3)], 2, 2),
    ([(2, 1, 2, 2, 4, 0), (2, 1, 2, 3, 6, 0), (2, 1, 3, 1, 4, 0)], 2, 2),
]


def _folded(
    x: np.ndarray, sides: Sequence[tuple[int, ...]], channels: int, images: int
) -> np.ndarray:
    """What FOLD computes, by its formula."""
    taps, windows, sizes = ([side[at] for side in sides] for at in (0, 2, 4))
    y = np.zeros((channels, images, *sizes), x.dtype)
    held = x.reshape(channels, *taps, images, *windows)
    for tap in np.ndindex(*taps):
        for window in np.ndindex(*windows):
            place = tuple(
                o * stride + t * spacing - before
                for o, t, (_, spacing, _, stride, _, before) in zip(window, tap, sides, strict=True)
            )
            if all(0 <= at < size for at, size in zip(place, sizes, strict=True)):
                y[(slice(None), slice(None), *place)] += held[
                    (slice(None), *tap, slice(None), *window)
                ]
    return y.reshape(channels, -1)


@pytest.mark.parametrize("token", ["f64", "f32", "i64", "i32"])
@pytest.mark.parametrize(("sides", "channels", "images"), FOLDS)
def test_fold(sides, channels, images, token):
    taps, windows, size = (prod(side[at] for side in sides) for at in (0, 2, 4))
    x = numbers(token, channels * taps, images * windows)
    dims = [" ".join(f"{side[at]}@{side[at + 1]}" for side in sides) for at in (0, 2, 4)]
    shape = (channels, images * size)
    line = f"FOLD X, {dims[0]} | {dims[1]} {dims[2]}, Y"
    (got,) = compute(line, {"X": (token, x)}, {"Y": (token, shape)})
    y = np.empty(shape, x.dtype)
    BY_NAME["FOLD"].macro.function(unit(token), x, y, [col2im.FoldSide(*side) for side in sides])
    wanted = _folded(x, sides, channels, images)
    tolerance = {"f64": 1e-12, "f32": 1e-5}.get(token, 0)
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(y, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ("2@1 | 3@1 4@0", "no whole channels"),
        ("3@1 | 2@1 4@0", "no whole channels"),
        ("3@1 | 4@1 4@0", "number of windows 4 is not between 1 and 3"),
        ("3@1 | 3@1 8@0", "size of the image 8 is not between 1 and 6"),
        ("3@0 | 3@1 4@0", "distance of taps 0"),
    ],
)
def test_what_cannot_be_folded_is_refused(dims, message):
    operands = {"X": ("f32", np.zeros((3, 3), np.float32))}
    with pytest.raises(Exception, match=message):
        compute(f"FOLD X, {dims}, Y", operands, {"Y": ("f32", (1, 6))})


@pytest.mark.parametrize("machine", FAMILY, ids=lambda machine: machine.name)
@pytest.mark.parametrize(
    ("sides", "channels", "images"), [case for case in FOLDS if len(case[0]) == 2]
)
def test_a_fold_is_charged_as_its_expansion_counts(sides, channels, images, machine):
    """But for the filling of its loop."""
    taps, windows, sizes, strides = (tuple(side[at] for side in sides) for at in (0, 2, 4, 3))
    u = MacroSimulator(machine, "f32", op_costs.cost, dry=True)
    x, y = (
        np.zeros((channels * prod(taps), images * prod(windows)), np.float32),
        np.zeros((channels, images * prod(sizes)), np.float32),
    )
    col2im.fold(u, x, y, [col2im.FoldSide(*side) for side in sides])
    shape = cost_rules.Col2ImCost(taps, windows, sizes, strides)
    charged = cost_rules.fold_cycles(machine, "f32", shape, channels, images * prod(shape.steps))
    assert charged <= u.cycles <= 1.02 * charged + 40 * (prod(strides) + 2)
