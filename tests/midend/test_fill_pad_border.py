"""Padding: passes `fill-pad-border` and `fold-interior-pad-into-store` write each element once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.linalg.function import Update
from ftm_backend.midend.transforms.tensor.fill_pad_border import fill_pad_border
from ftm_backend.midend.transforms.tensor.fold_interior_pad_into_store import (
    fold_interior_pad_into_store,
)
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from ftm_backend.target.presets import MachineParameters
from midend.trace_builder import Program
from midend.trace_programs import M7032, assembly, check, linalg

HOST = presets.load("host")

AROUND = {  # shape of the interior, and padding before and after it in each dimension
    "before, as of a pooling": ((3, 40, 150), ((0, 0), (1, 0), (1, 0))),
    "behind": ((5, 31, 200), ((0, 0), (0, 2), (0, 1))),
    "around": ((2, 17, 257), ((0, 0), (3, 1), (1, 2))),
    "rows": ((4, 30, 64), ((0, 0), (2, 1), (0, 0))),
    "outermost": ((3, 5, 70), ((1, 2), (0, 0), (0, 0))),
    "of one row": ((4000,), ((3, 500),)),
    "of one element": ((1, 1, 1), ((1, 1), (2, 0), (300, 300))),
    "all four": ((2, 3, 4, 300), ((1, 0), (0, 1), (1, 1), (7, 0))),
}
SHORT_ROWS = ((40, 30, 20), ((0, 0), (1, 1), (1, 1)))
LARGE = ((64, 112, 112), ((0, 0), (1, 0), (1, 0)))
BETWEEN = {  # shape, start and step of each dimension, how many
    "every second": ((3, 40, 64), (0, 0, 0), (1, 1, 2), (3, 40, 32)),
    "every third, from the second on": ((2, 30, 47), (0, 0, 1), (1, 1, 3), (2, 30, 15)),
    "rows apart, too": ((2, 41, 50), (0, 1, 0), (1, 2, 5), (2, 20, 10)),
    "of one line": ((4000,), (3,), (4,), (999,)),
    "up to the end": ((5, 20, 21), (0, 0, 0), (1, 1, 4), (5, 20, 6)),
    "without gaps": ((4, 20, 30), (0, 0, 3), (1, 2, 1), (4, 10, 20)),
}


def written(
    shape: tuple[int, ...],
    first: tuple[int, ...],
    step: tuple[int, ...],
    count: tuple[int, ...],
    fill: float = 1.5,
    dtype: str = "f32",
) -> Program:
    """A tensor that is written into a full one."""
    program, strides = Program(dtype), row_major(shape)
    value = program.call("neg", self=program.integers(*count, least=-9, end=9))
    offset = int(np.dot(first, strides))
    steps = [a * b for a, b in zip(step, strides, strict=True)]
    return program.returns(program.update(program.full(shape, fill), value, steps, offset))


def padded(
    inside: tuple[int, ...],
    around: tuple[tuple[int, int], ...],
    fill: float = 1.5,
    dtype: str = "f32",
) -> Program:
    shape = tuple(n + low + high for n, (low, high) in zip(inside, around, strict=True))
    first = tuple(low for low, _ in around)
    return written(shape, first, (1,) * len(shape), inside, fill, dtype)


def run(program: Program, cores: int, machine: MachineParameters = M7032) -> None:
    check(program, assembly(program, replace(machine, cores=cores)), cores, tolerance=0)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", [*AROUND, *BETWEEN])
def test_what_is_written(name: str, cores: int) -> None:
    if name in AROUND:
        run(padded(*AROUND[name], fill=float("-inf")), cores)
    else:
        run(written(*BETWEEN[name]), cores)
        run(written(*BETWEEN[name], fill=0.0, dtype="f64"), cores)


@pytest.mark.parametrize("dtype", ["f64", "f16", "i64", "i32"])
@pytest.mark.parametrize("name", AROUND)
def test_elements_of_other_types(name: str, dtype: str) -> None:
    run(padded(*AROUND[name], fill=7, dtype=dtype), 3)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("name", AROUND)
def test_what_is_written_on_the_host(name: str, cores: int) -> None:
    run(padded(*AROUND[name]), cores, HOST)


def parts(program: Program, machine: MachineParameters = M7032) -> list[int]:
    """The parts of the updates, which must not overlap if the border is written separately."""
    body = fill_pad_border(linalg(program), machine).body
    updates = [item for item in body if isinstance(item, Update)]
    assert all((len(x.parts) == 1) == (x.base.value.splat is not None) for x in updates)
    return [len(x.parts) for x in updates]


def test_a_border_is_as_many_parts_as_it_has_sides() -> None:
    assert parts(padded(*AROUND["before, as of a pooling"])) == [3]
    assert parts(padded(*AROUND["around"])) == [5]
    assert parts(padded(*AROUND["rows"])) == [3]


def test_short_rows_are_filled_together_with_what_is_between() -> None:
    """A granule for each row is more than the row."""
    assert parts(padded(*SHORT_ROWS)) == [1]


def test_on_the_host_a_small_tensor_is_filled_as_a_whole() -> None:
    """A kernel for each side costs more than the fill."""
    assert parts(padded((1024, 8, 8), ((0, 0), (1, 1), (1, 1))), HOST) == [1]
    assert parts(padded((64, 96, 96), ((0, 0), (1, 1), (1, 1))), HOST) == [5]


def test_each_element_is_moved_once() -> None:
    profile = cycle_model.model(assembly(padded(*LARGE)), machine="m7032", cores=8)
    assert profile.dma_bytes < 1.15 * 4 * 64 * (112**2 + 113**2) + 64 * 112 * 128


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("every second", 2),
        ("rows apart, too", 2),
        ("without gaps", 1),
        ("up to the end", 1),  # the last gap would reach into the next row
    ],
)
def test_elements_and_the_zeros_between_them_are_one_update(name: str, count: int) -> None:
    body = fold_interior_pad_into_store(linalg(written(*BETWEEN[name], fill=0.0)), M7032).body
    assert sum(isinstance(item, Update) for item in body) == count
