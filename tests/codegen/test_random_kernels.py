"""Random kernels, in place on one buffer: the machine must do what a few lines of Python do.

Whatever placement, register allocation, waiting or pipelining gets wrong changes an address or an
order, and with it the result.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ftm_backend.codegen import emit, linearize, pipeline
from ftm_backend.ir.linalg.body_builder import constant
from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.printer import print_tiles
from ftm_backend.ir.tile.reader import read_tiles

SIZE = 96


@st.composite
def index(draw, variables, depth=0):
    """An index expression as a nested tuple over the loop counters in scope."""
    kinds = ["var", "number"] if variables else ["number"]
    kind = draw(
        st.sampled_from([*kinds, "add", "mul", "rem", "div", "min", "max"] if depth < 3 else kinds)
    )
    if kind == "var":
        return ("var", draw(st.sampled_from(variables)))
    if kind == "number":
        return ("number", draw(st.integers(0, 9)))
    left = draw(index(variables, depth + 1))
    right = (
        ("number", draw(st.integers(1, 7)))
        if kind in ("mul", "rem", "div")
        else draw(index(variables, depth + 1))
    )
    return (kind, left, right)


@st.composite
def block(draw, variables=(), depth=0):
    """A list of statements: copies, loops and branches."""
    statements = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["copy", "copy", "loop", "if"] if depth < 3 else ["copy"]))
        if kind == "copy":
            width = draw(st.integers(1, 4))
            statements.append(
                (kind, draw(index(list(variables))), draw(index(list(variables))), width)
            )
        elif kind == "loop":
            name = f"i{len(variables)}"
            low, step = draw(st.integers(0, 2)), draw(st.integers(1, 3))
            high = (
                draw(index(list(variables)))
                if draw(st.booleans())
                else ("number", draw(st.integers(0, 6)))
            )
            statements.append(
                (
                    kind,
                    name,
                    low,
                    ("min", high, ("number", 6)),
                    step,
                    draw(block((*variables, name), depth + 1)),
                )
            )
        else:
            statements.append(
                (
                    kind,
                    draw(st.sampled_from(["lt", "eq", "ne"])),
                    draw(index(list(variables))),
                    draw(index(list(variables))),
                    draw(block(variables, depth + 1)),
                )
            )
    return statements


def built(b, expr, counters):
    kind, *args = expr
    if kind == "var":
        return counters[args[0]]
    if kind == "number":
        return args[0]
    return getattr(b, kind)(*(built(b, arg, counters) for arg in args))


def write(b, statements, counters):
    memory, result = b.buffer("b0", "f32", SIZE), b.buffer("o0", "f32", SIZE)
    for kind, *rest in statements:
        if kind == "copy":
            source, target, width = rest
            X, Y = b.tile("f32", 1, width), b.tile("f32", 1, width)
            # not in the text's order
            to, at = (b.rem(built(b, place, counters), SIZE - 4) for place in (target, source))
            b.load(memory, at, X, 0, [1, width], [width, 1], 1)
            b.map(
                1,
                width,
                [(X, 0, "full")],
                [(Y, 0, "full")],
                lambda v: [Node("arith.addf", "f32", (v[0], constant(1.0, "f32")))],
            )
            b.store(Y, 0, result, to, [1, width], [width, 1], 1)
        elif kind == "loop":
            name, low, high, step, body = rest
            with b.for_(low, built(b, high, counters), step) as counter:
                write(b, body, {**counters, name: counter})
        else:
            predicate, left, right, body = rest
            with b.if_(b.compare(predicate, built(b, left, counters), built(b, right, counters))):
                write(b, body, counters)


COMPUTE = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "rem": lambda a, b: a % b,
    "div": lambda a, b: a // b,
    "min": min,
    "max": max,
}
COMPARE = {"lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b}


def value(expr, counters):
    kind, *args = expr
    if kind == "var":
        return counters[args[0]]
    return args[0] if kind == "number" else COMPUTE[kind](*(value(arg, counters) for arg in args))


def execute(statements, memory, counters):
    for kind, *rest in statements:
        if kind == "copy":
            source, target, width = rest
            at, to = (value(e, counters) % (SIZE - 4) for e in (source, target))
            memory[to : to + width] = memory[at : at + width] + 1
        elif kind == "loop":
            name, low, high, step, body = rest
            for counter in range(low, value(high, counters), step):
                execute(body, memory, {**counters, name: counter})
        else:
            predicate, left, right, body = rest
            if COMPARE[predicate](value(left, counters), value(right, counters)):
                execute(body, memory, counters)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("placement", linearize.PLACEMENTS)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(statements=block())
def test_the_machine_does_what_python_does(lab, monkeypatch, placement, overlap, statements):
    def build(b):
        with b.if_(b.compare("eq", b.core_id(), 0)):
            write(b, statements, {})

    monkeypatch.setattr(linearize, "PLACEMENTS", (placement,) * 3)
    text = lab.text(build, [("f32", [SIZE])], [("f32", [SIZE], "b0")], overlap=overlap)
    memory = np.arange(SIZE, dtype=np.float32) * 100
    expected = memory.copy()
    execute(statements, expected, {})
    np.testing.assert_array_equal(lab.run(text, [memory], donate=[0])[0], expected, err_msg=text)


@pytest.mark.parametrize("overlap", [False, True])
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(statements=block())
def test_the_text_of_every_stage_gives_the_same_assembly(lab, overlap, statements):
    def program():
        return lab.program(lambda b: write(b, statements, {}), [("f32", [SIZE])], [("f32", [SIZE])])

    machine = lab.overlapping if overlap else lab.plain
    expected = str(pipeline.run(program(), machine))
    current = program()
    passes = pipeline.pipeline(machine)
    for done in range(len(passes) + 1):
        text = print_tiles(current, "any")
        back = read_tiles(text)
        assert print_tiles(back, "any") == text
        for step in passes[done:]:
            back = step.run(back, machine)
        assert str(emit(back, machine)) == expected, f"read back after {done} passes:\n{text}"
        if done < len(passes):
            current = passes[done].run(current, machine)
