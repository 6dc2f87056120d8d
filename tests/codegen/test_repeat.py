"""Loops over iterations on the machine, in checked mode, against upstream's execution of the same
linalg."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ftm_backend.compile_options import CompileOptions
from ftm_backend.driver import run_from
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.matmul import matmul
from ftm_backend.frontend.oplib.reductions import reduce
from ftm_backend.frontend.ops.nn.recurrent import _joined, _parts, _states, _Steps
from ftm_backend.frontend.sequential_loop import LoopIteration, repeat
from ftm_backend.ir.linalg.printer import print_function
from ftm_backend.ir.trace.trace import TensorType
from ftm_backend.machine import Machine
from ftm_backend.torch_mlir.execution_engine import run_text

Made = list[StridedValue]


def _plus(b: LinalgBuilder, x: StridedValue, y: StridedValue) -> StridedValue:
    made: StridedValue = b.pointwise(lambda p, q: p + q, [x, y], TensorType("f32", x.shape))
    return made


def _half(b: LinalgBuilder, x: StridedValue) -> StridedValue:
    made: StridedValue = b.pointwise(lambda p: p * 0.5, [x], TensorType("f32", x.shape))
    return made


def product_and_sum(
    b: LinalgBuilder, x: StridedValue, y: StridedValue, w: StridedValue, steps: _Steps
) -> Made:
    """A state through a product, with what comes in."""

    def step(at: LoopIteration) -> None:
        state = _half(b, matmul(b, at.result_row(0, *steps.before), w))
        at.store(0, *steps.after, _plus(b, state, at.row(x, *steps.x)))

    return list(repeat(b, steps.count, [_states(b, y, steps)], step))


def in_place(
    b: LinalgBuilder, x: StridedValue, y: StridedValue, w: StridedValue, steps: _Steps
) -> Made:
    """One row that each iteration reads and writes; the input that it starts from is used after it
    too."""
    start = b.reshape(y, (1, *y.shape))

    def step(at: LoopIteration) -> None:
        at.store(0, 0, 0, _plus(b, _half(b, at.result_row(0, 0, 0)), at.row(x, *steps.x)))

    (made,) = repeat(b, steps.count, [start], step)
    return [made, _plus(b, b.reshape(made, y.shape), y)]


def from_one_number(
    b: LinalgBuilder, x: StridedValue, y: StridedValue, w: StridedValue, steps: _Steps
) -> Made:
    """Each iteration writes parts of a row of a filled tensor; input rows are not dense."""
    turned = b.copy(x).permute([1, 0, 2]).permute([1, 0, 2]).transpose()

    def step(at: LoopIteration) -> None:
        left, *others = _parts(at.row(x, *steps.x), 2)
        at.store(0, *steps.x, _joined(b, [_half(b, left), *others]))
        at.store(1, *steps.after, at.row(turned, *steps.x))

    bases = [b.full(3.5, "f32", x.shape), b.full(0.25, "f32", (steps.count + 1, *turned.shape[1:]))]
    return list(repeat(b, steps.count, bases, step))


def reductions(
    b: LinalgBuilder, x: StridedValue, y: StridedValue, w: StridedValue, steps: _Steps
) -> Made:
    """Means over rows and columns of values local to an iteration, and a dead value."""

    def step(at: LoopIteration) -> None:
        row = _plus(b, at.row(x, *steps.x), y)
        total = reduce(b, "sum", [row], [1], "f32", lambda p: p)
        spread = b.pointwise(
            lambda p, q: p - e.tanh(q),
            [row, total.unsqueeze(1).expand(row.shape)],
            TensorType("f32", row.shape),
        )
        at.store(0, *steps.after, _plus(b, spread, at.result_row(0, *steps.before)))
        at.store(1, *steps.x, total)
        at.store(2, *steps.x, row)

    bases = [_states(b, y, steps), b.empty("f32", x.shape[:2]), b.empty("f32", x.shape)]
    return list(repeat(b, steps.count, bases, step)[:2])


def what_is_outside(
    b: LinalgBuilder, x: StridedValue, y: StridedValue, w: StridedValue, steps: _Steps
) -> Made:
    """Rows that are copies of tensors outside and of other results, the same value twice, and a
    loop after a loop."""
    outside = _half(b, y)

    def first(at: LoopIteration) -> None:
        at.store(0, *steps.x, outside)
        at.store(1, *steps.x, at.row(x, *steps.x))

    def second(at: LoopIteration) -> None:
        made = _plus(b, at.row(one, *steps.x), at.row(two, *steps.x))
        at.store(0, *steps.x, made)
        at.store(1, *steps.x, made)

    one, two = repeat(b, steps.count, [b.empty("f32", x.shape), b.empty("f32", x.shape)], first)
    made = repeat(b, steps.count, [b.empty("f32", x.shape), _half(b, x)], second)
    return [*made, _plus(b, one, made[0])]


BODIES: list[Callable[..., Made]] = [
    product_and_sum, in_place, from_one_number, reductions, what_is_outside,
]  # fmt: skip


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("shape", [(1, 3, 4), (5, 3, 4), (3, 130, 70)], ids=str)
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_loops_do_what_upstreams_do(
    body: Callable[..., Any], shape: tuple[int, int, int], backwards: bool
) -> None:
    b = LinalgBuilder()
    steps, rows, columns = shape
    x, y, w = (
        b.input(TensorType("f32", sizes)) for sizes in (shape, (rows, columns), (columns, columns))
    )
    results = body(b, x, y, w, _Steps(steps, backwards))
    b.function.results = [b.tensor(r) for r in results]
    b.function.output_types = ["f32"] * len(results)
    text = print_function(b.function)
    source = np.random.default_rng(0)
    given = [
        source.standard_normal(sizes, np.float32) / 4
        for sizes in (shape, (rows, columns), (columns, columns))
    ]
    wanted = run_text(text, given)
    for machine, cores in (("host", 3), ("m7032", 2)):
        program = Machine(cores=cores, checked=True).load(
            run_from("linalg", text, "image", CompileOptions(machine=machine, cores=cores))
        )
        for got, want in zip(program.run(given, []), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_windows_that_would_cross_are_refused() -> None:
    def crossing(at: LoopIteration) -> None:
        at.store(0, 1, 1, at.result_row(0, 0, 0))

    b = LinalgBuilder()
    start = b.input(TensorType("f32", (5, 3)))
    with pytest.raises(ValueError, match="another window"):
        repeat(b, 4, [start], crossing)
