"""Op records of recurrent layers: one direction of LSTM, GRU and plain RNN, with gradients.

``gates`` contains the inputs' contributions for all steps. The recurrent part is a loop
(`frontend/sequential_loop.py`). T steps have T + 1 rows of states: the initial state and one per
step, in the order of the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import Body, LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.matmul import matmul
from ftm_backend.frontend.oplib.op_registry import lowering
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.frontend.sequential_loop import LoopIteration, repeat
from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.linalg.strided_view import Strided
from ftm_backend.ir.trace.trace import TensorType

_TOLERANCE = {"f64": (1e-9, 1e-9), "f32": (1e-4, 1e-5), "f16": (2e-2, 8e-3), "bf16": (8e-2, 5e-2)}


class _Steps:
    """Row numbers (first, increment) of a sequence of steps.

    Attributes:
        count: Number of steps.
        x: Rows of the inputs.
        before: Rows of the states before each step.
        after: Rows of the states after each step.
    """

    def __init__(self, count: int, backwards: bool) -> None:
        self.count = count
        self.x = (count - 1, -1) if backwards else (0, 1)
        self.before = (count, -1) if backwards else (0, 1)
        self.after = (count - 1, -1) if backwards else (1, 1)


def _states(b: LinalgBuilder, start: StridedValue, steps: _Steps) -> StridedValue:
    """Return rows for the states, with the initial state `start`."""
    rows = b.empty(start.dtype, (steps.count + 1, *start.shape))
    return _with_row(b, rows, steps.before[0], start)


def _with_row(b: LinalgBuilder, rows: StridedValue, row: int, value: StridedValue) -> StridedValue:
    strides = row_major(rows.shape)
    return b.update(rows, value, Strided(value.shape, strides[1:], row * strides[0]))


def _parts(x: StridedValue, count: int) -> list[StridedValue]:
    """Split the columns of `x` into equal parts."""
    width = x.shape[1] // count
    return [x.slice(1, k * width, width) for k in range(count)]


def _joined(b: LinalgBuilder, parts: list[StridedValue]) -> StridedValue:
    """Concatenate columns; the inverse of `_parts`."""
    rows, width = parts[0].shape
    result = b.empty(parts[0].dtype, (rows, len(parts) * width))
    strides = row_major(result.shape)
    return b.insert_slices(
        result, [(part, Strided(part.shape, strides, k * width)) for k, part in enumerate(parts)]
    )


def _cell(
    b: LinalgBuilder, inputs: list[StridedValue], count: int, body: Body
) -> list[StridedValue]:
    """Compute `count` results of an elementwise function, in the first input's type."""
    type_ = TensorType(inputs[0].dtype, inputs[0].shape)
    compute = compute_dtype(type_.dtype)

    def computed(*elements: ScalarExpr) -> tuple[ScalarExpr, ...]:
        result = body(*(x.to(compute) for x in elements))
        return tuple(
            x.to(type_.dtype) for x in (result if isinstance(result, tuple) else (result,))
        )

    return list(b.pointwise_all(computed, inputs, [type_] * count))


# --- LSTM
# -------------------------------------------------------------------------------------------------


@lowering("ftm::lstm_forward", FLOATS, "recurrent", _TOLERANCE)
def _lstm_forward(
    b: LinalgBuilder,
    gates: StridedValue,
    hidden: StridedValue,
    cell: StridedValue,
    weight: StridedValue,
    backwards: bool,
) -> tuple[StridedValue, ...]:
    """Return hidden states, cell states, and the activated gates.

    Gates are in the order input, forget, candidate, output.
    """
    steps = _Steps(gates.shape[0], backwards)

    def step(at: LoopIteration) -> None:
        own = _parts(at.row(gates, *steps.x), 4)
        recurrent = _parts(matmul(b, at.result_row(0, *steps.before), weight.transpose()), 4)

        def body(c: ScalarExpr, *x: ScalarExpr) -> tuple[ScalarExpr, ...]:
            i, f, g, o = (x[k] + x[4 + k] for k in range(4))
            i, f, g, o = e.sigmoid(i), e.sigmoid(f), e.tanh(g), e.sigmoid(o)
            c = f * c + i * g
            return o * e.tanh(c), c, i, f, g, o

        h, c, *kept = _cell(b, [at.result_row(1, *steps.before), *own, *recurrent], 6, body)
        at.store(0, *steps.after, h)
        at.store(1, *steps.after, c)
        at.store(2, *steps.x, _joined(b, kept))

    bases = [_states(b, hidden, steps), _states(b, cell, steps), b.empty(gates.dtype, gates.shape)]
    return repeat(b, steps.count, bases, step)


@lowering("ftm::lstm_backward", FLOATS, "recurrent", _TOLERANCE)
def _lstm_backward(
    b: LinalgBuilder,
    grad: StridedValue,
    grad_hidden: StridedValue,
    grad_cell: StridedValue,
    cells: StridedValue,
    kept: StridedValue,
    weight: StridedValue,
    backwards: bool,
) -> tuple[StridedValue, ...]:
    """Return the gradients of gates, initial hidden state and initial cell state.

    `grad` is the gradient of the hidden states of all steps.
    """
    forward = _Steps(grad.shape[0], backwards)
    steps = _Steps(grad.shape[0], not backwards)

    def step(at: LoopIteration) -> None:
        activated = _parts(at.row(kept, *steps.x), 4)
        c, before = (
            at.row(cells, *_row(forward.after, steps)),
            at.row(cells, *_row(forward.before, steps)),
        )

        def body(
            dy: ScalarExpr,
            dh: ScalarExpr,
            dc: ScalarExpr,
            c: ScalarExpr,
            before: ScalarExpr,
            i: ScalarExpr,
            f: ScalarExpr,
            g: ScalarExpr,
            o: ScalarExpr,
        ) -> tuple[ScalarExpr, ...]:
            dh = dy + dh
            squashed = e.tanh(c)
            dc = dc + dh * o * (1 - squashed * squashed)
            return (
                dc * g * i * (1 - i),
                dc * before * f * (1 - f),
                dc * i * (1 - g * g),
                dh * squashed * o * (1 - o),
                dc * f,
            )

        states = [
            at.row(grad, *steps.x),
            at.result_row(1, *steps.before),
            at.result_row(2, *steps.before),
            c,
            before,
        ]
        *parts, dc = _cell(b, [*states, *activated], 5, body)
        joined = _joined(b, parts)
        at.store(0, *steps.x, joined)
        at.store(1, *steps.after, b.cast(matmul(b, joined, weight), grad.dtype))
        at.store(2, *steps.after, dc)

    bases = [
        b.empty(kept.dtype, kept.shape),
        _states(b, grad_hidden, steps),
        _states(b, grad_cell, steps),
    ]
    return _first(b, repeat(b, steps.count, bases, step), steps)


def _row(rows: tuple[int, int], steps: _Steps) -> tuple[int, int]:
    """The rows of the steps of the other direction, from the last on."""
    first, step = rows
    return first + (steps.count - 1) * step, -step


def _first(
    b: LinalgBuilder, result: Sequence[StridedValue], steps: _Steps
) -> tuple[StridedValue, ...]:
    """Return the gates' gradients, and the gradients of the initial states."""
    last = steps.after[0] + (steps.count - 1) * steps.after[1]
    gradients, *states = result
    return gradients, *(b.reshape(rows.slice(0, last, 1), rows.shape[1:]) for rows in states)


# --- GRU
# --------------------------------------------------------------------------------------------------


@lowering("ftm::gru_forward", FLOATS, "recurrent", _TOLERANCE)
def _gru_forward(
    b: LinalgBuilder,
    gates: StridedValue,
    hidden: StridedValue,
    weight: StridedValue,
    bias: StridedValue | None,
    backwards: bool,
) -> tuple[StridedValue, ...]:
    """Return hidden states, and the values that the gradient needs.

    These are reset, update and candidate gates, and the recurrent part of the candidate.
    """
    steps = _Steps(gates.shape[0], backwards)
    width = hidden.shape[1]

    def step(at: LoopIteration) -> None:
        before = at.result_row(0, *steps.before)
        own, recurrent = (
            _parts(at.row(gates, *steps.x), 3),
            _parts(matmul(b, before, weight.transpose()), 3),
        )
        biases = [] if bias is None else [bias.slice(0, k * width, width) for k in range(3)]

        def body(h: ScalarExpr, *x: ScalarExpr) -> tuple[ScalarExpr, ...]:
            hr, hz, hn = (x[3 + k] + x[6 + k] if biases else x[3 + k] for k in range(3))
            r, z = e.sigmoid(x[0] + hr), e.sigmoid(x[1] + hz)
            n = e.tanh(x[2] + r * hn)
            return n + z * (h - n), r, z, n, hn

        h, *kept = _cell(b, [before, *own, *recurrent, *biases], 5, body)
        at.store(0, *steps.after, h)
        at.store(1, *steps.x, _joined(b, kept))

    shape = (*gates.shape[:2], 4 * width)
    return repeat(b, steps.count, [_states(b, hidden, steps), b.empty(gates.dtype, shape)], step)


@lowering("ftm::gru_backward", FLOATS, "recurrent", _TOLERANCE)
def _gru_backward(
    b: LinalgBuilder,
    grad: StridedValue,
    grad_hidden: StridedValue,
    states: StridedValue,
    kept: StridedValue,
    weight: StridedValue,
    backwards: bool,
) -> tuple[StridedValue, ...]:
    """Return the gradients of gates, recurrent gates, and initial hidden state."""
    forward = _Steps(grad.shape[0], backwards)
    steps = _Steps(grad.shape[0], not backwards)

    def step(at: LoopIteration) -> None:
        before = at.row(states, *_row(forward.before, steps))

        def body(
            dy: ScalarExpr,
            dh: ScalarExpr,
            h: ScalarExpr,
            r: ScalarExpr,
            z: ScalarExpr,
            n: ScalarExpr,
            hn: ScalarExpr,
        ) -> tuple[ScalarExpr, ...]:
            dh = dy + dh
            dn = dh * (1 - z) * (1 - n * n)
            dr = dn * hn * r * (1 - r)
            return dr, dh * (h - n) * z * (1 - z), dn, dn * r, dh * z

        inputs = [
            at.row(grad, *steps.x),
            at.result_row(2, *steps.before),
            before,
            *_parts(at.row(kept, *steps.x), 4),
        ]
        dr, dz, dn, dhn, dh_direct = _cell(b, inputs, 5, body)
        recurrent = _joined(b, [dr, dz, dhn])
        at.store(0, *steps.x, _joined(b, [dr, dz, dn]))
        at.store(1, *steps.x, recurrent)
        (dh,) = _cell(b, [dh_direct, matmul(b, recurrent, weight)], 1, lambda x, y: x + y)
        at.store(2, *steps.after, dh)

    shape = (*grad.shape[:2], 3 * grad.shape[2])
    result = repeat(
        b,
        steps.count,
        [b.empty(grad.dtype, shape), b.empty(grad.dtype, shape), _states(b, grad_hidden, steps)],
        step,
    )
    gates, *others = result
    return gates, *_first(b, others, steps)


# --- plain
# ------------------------------------------------------------------------------------------------


@lowering("ftm::rnn_forward", FLOATS, "recurrent", _TOLERANCE)
def _rnn_forward(
    b: LinalgBuilder,
    gates: StridedValue,
    hidden: StridedValue,
    weight: StridedValue,
    relu: bool,
    backwards: bool,
) -> StridedValue:
    """Return the hidden states."""
    steps = _Steps(gates.shape[0], backwards)

    def step(at: LoopIteration) -> None:
        recurrent = matmul(b, at.result_row(0, *steps.before), weight.transpose())
        result = _cell(
            b, [at.row(gates, *steps.x), recurrent], 1, lambda x, y: _activated(x + y, relu)
        )
        at.store(0, *steps.after, result[0])

    return repeat(b, steps.count, [_states(b, hidden, steps)], step)[0]


@lowering("ftm::rnn_backward", FLOATS, "recurrent", _TOLERANCE)
def _rnn_backward(
    b: LinalgBuilder,
    grad: StridedValue,
    grad_hidden: StridedValue,
    states: StridedValue,
    weight: StridedValue,
    relu: bool,
    backwards: bool,
) -> tuple[StridedValue, ...]:
    """Return the gradients of gates and initial hidden state."""
    forward = _Steps(grad.shape[0], backwards)
    steps = _Steps(grad.shape[0], not backwards)

    def step(at: LoopIteration) -> None:
        def body(dy: ScalarExpr, dh: ScalarExpr, h: ScalarExpr) -> ScalarExpr:
            return e.where(h <= 0, 0, dy + dh) if relu else (dy + dh) * (1 - h * h)

        (result,) = _cell(
            b,
            [
                at.row(grad, *steps.x),
                at.result_row(1, *steps.before),
                at.row(states, *_row(forward.after, steps)),
            ],
            1,
            body,
        )
        at.store(0, *steps.x, result)
        at.store(1, *steps.after, b.cast(matmul(b, result, weight), grad.dtype))

    return _first(
        b,
        repeat(
            b, steps.count, [b.empty(grad.dtype, grad.shape), _states(b, grad_hidden, steps)], step
        ),
        steps,
    )


def _activated(x: ScalarExpr, relu: bool) -> ScalarExpr:
    return e.maximum(x, 0) if relu else e.tanh(x)
