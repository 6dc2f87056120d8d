"""Pass `inline-epilogue-inputs`: an update's scaling moves into the product's kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ftm_backend.ir.linalg.function import Statement
from ftm_backend.midend.transforms.fusion.fuse_ops import fuse_ops
from ftm_backend.midend.transforms.memory.insert_copies import insert_copies
from ftm_backend.midend.transforms.tensor.inline_epilogue_inputs import (
    inline_epilogue_inputs,
)
from ftm_backend.target import presets
from midend.trace_builder import Program, Value
from midend.trace_programs import M7032, assembly, check, linalg

SHAPE, ROWS = (37, 70), 50
"""Of a parameter, and of the batch that is summed over."""
Update = Callable[[Program, Value, Value], list[Value]]


def other_state(t: Program, a: Value, g: Value) -> list[Value]:
    state = t.call("addcmul", self=a, tensor1=g, tensor2=g, value=1)
    b = t.call("neg", self=t.call("tanh", self=t.random(*SHAPE)))
    return [state, t.call("mul.Tensor", self=b, other=state)]


def added_to_other_columns(t: Program, a: Value, g: Value) -> list[Value]:
    return [t.add(t.view(a, SHAPE, [SHAPE[1], 0]), g)]


# results from a scaled parameter and its gradient; how many kernels compute them
PROGRAMS: dict[str, tuple[Update, int]] = {
    "one that decays": (lambda t, a, g: [t.add(a, g)], 1),
    "one, and another one by it": (other_state, 1),
    "what is a result, too": (lambda t, a, g: [a, t.add(a, g)], 2),
    "what is read twice": (
        lambda t, a, g: [t.call("mul.Tensor", self=a, other=t.add(a, g))],
        2,
    ),
    "what is added to its other columns": (added_to_other_columns, 2),
}


def step(name: str) -> Program:
    """The update of a parameter whose gradient is a product."""
    program = Program()
    x, y, p = (program.random(*shape) for shape in ((ROWS, SHAPE[0]), (ROWS, SHAPE[1]), SHAPE))
    gradient = program.call("mm", self=program.transposed(x), mat2=y)
    scaled = program.call("mul.Scalar", self=p, other=program.scalar(0.75))
    return program.returns(*PROGRAMS[name][0](program, scaled, gradient))


@pytest.mark.parametrize("machine, cores", [("host", 2), *(("m7032", n) for n in (1, 2, 3, 7, 8))])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_computed(name: str, machine: str, cores: int) -> None:
    program = step(name)
    check(program, assembly(program, replace(presets.load(machine), cores=cores)), cores)


@pytest.mark.parametrize("name", PROGRAMS)
def test_where_it_is_done(name: str) -> None:
    kernels, function = PROGRAMS[name][1], linalg(step(name))
    statements = sum(isinstance(item, Statement) for item in function.body)
    function = inline_epilogue_inputs(function, M7032)
    left = sum(isinstance(item, Statement) for item in function.body)
    assert (left < statements) == (kernels == 1)
    assert len(fuse_ops(insert_copies(function, M7032), M7032).kernels) == kernels
