"""Elementwise operations: every pair of dtypes, broadcasting, and operands that lie anyhow in
memory."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from properties.cases import (
    ALL,
    FLOATS,
    INTS,
    LAYOUTS,
    WRITABLE,
    Call,
    broadcast,
    holds,
    operands,
    shapes,
)

UNARY = ["neg", "abs", "sign", "floor", "ceil", "trunc", "round", "sqrt", "rsqrt", "exp", "log1p", "tanh", "sigmoid", "sin", "erf",
         "reciprocal", "isnan", "isinf", "logical_not", "square", "relu", "signbit", "isfinite", "expm1", "atan", "positive"]  # fmt: skip
BINARY = ["add", "sub", "mul", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor",
          "atan2", "fmax", "fmin", "true_divide", "hypot", "copysign"]  # fmt: skip
WHOLE = ["bitwise_and", "bitwise_or", "bitwise_xor"]
IN_PLACE = ["add_", "mul_", "sub_", "copy_", "clamp_min_", "clamp_max_", "eq_", "logical_and_"]
NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([0.5, -1.5, 2.0]))


@st.composite
def unary(draw: Any) -> Call:
    name, x = draw(st.sampled_from(UNARY)), draw(operands(draw(shapes()), ALL))
    return Call(name, getattr(torch, name), (x,))


@holds(unary())
def test_unary() -> None:
    """One operand."""


@st.composite
def binary(draw: Any) -> Call:
    shape = draw(shapes())
    dtypes, names = (INTS + [torch.bool], WHOLE) if draw(st.integers(0, 4)) == 0 else (ALL, BINARY)
    name = draw(st.sampled_from(names))
    return Call(
        name,
        getattr(torch, name),
        (draw(operands(shape, dtypes)), draw(operands(draw(broadcast(shape)), dtypes))),
    )


@holds(binary())
def test_binary() -> None:
    """Two operands of any dtypes that broadcast."""


@st.composite
def with_number(draw: Any) -> Call:
    name, number, swap = (
        draw(st.sampled_from(["add", "sub", "mul", "true_divide", "eq", "lt", "maximum", "pow"])),
        draw(NUMBERS),
        draw(st.booleans()),
    )
    x = draw(operands(draw(shapes()), ALL))
    if name == "pow":
        number = abs(number)
    if name in ("maximum", "lt", "eq"):
        function = lambda x: getattr(torch, name)(x, torch.tensor(number, device=x.device))
    elif swap and name in ("add", "mul"):
        function = {"add": lambda x: number + x, "mul": lambda x: number * x}[name]
    elif swap and name == "sub":
        function = lambda x: number - x
    else:
        function = lambda x: getattr(torch, name)(x, number)
    return Call(f"{name} {number} {swap}", function, (x,))


@holds(with_number())
def test_with_a_number() -> None:
    """A tensor and a Python number, or a tensor without dimensions: weaker in promotion."""


@st.composite
def chosen(draw: Any) -> Call:
    shape = draw(shapes())
    dtype = draw(st.sampled_from(ALL))
    condition = draw(operands(draw(broadcast(shape)), [torch.bool]))
    x, y = draw(operands(shape, ALL)), draw(operands(draw(broadcast(shape)), [dtype]))
    return Call("where", torch.where, (condition, x, y))


@st.composite
def clamped(draw: Any) -> Call:
    shape = draw(shapes())
    x = draw(operands(shape, FLOATS + INTS))
    if draw(st.booleans()):
        low, high = draw(st.one_of(st.none(), NUMBERS)), draw(NUMBERS)
        return Call(f"clamp {low} {high}", lambda x: torch.clamp(x, low, high), (x,))
    return Call(
        "clamp",
        torch.clamp,
        (
            x,
            draw(operands(draw(broadcast(shape)), [x.dtype])),
            draw(operands(draw(broadcast(shape)), [x.dtype])),
        ),
    )


@holds(st.one_of(chosen(), clamped()))
def test_choices() -> None:
    """where and clamp, by tensors and by numbers."""


@st.composite
def converted(draw: Any) -> Call:
    x, dtype = draw(operands(draw(shapes()), ALL)), draw(st.sampled_from(ALL))
    clean = type(x)(x.shape, x.dtype, x.layout, x.seed, False)  # no integer stands for NaN
    return Call(
        f"to {dtype}", lambda x: x.to(dtype), (clean if not dtype.is_floating_point else x,)
    )


@holds(converted())
def test_conversions() -> None:
    """From every dtype to every other."""


@st.composite
def written(draw: Any) -> Call:
    """In place, into memory that lies anyhow; what surrounds it stays."""
    shape, name = draw(shapes()), draw(st.sampled_from(IN_PLACE))
    x, y = (
        draw(operands(shape, ALL, WRITABLE)),
        draw(operands(draw(broadcast(shape)), ALL, list(LAYOUTS))),
    )

    def write(x: Tensor, y: Tensor) -> Tensor:
        base = x._base if x._base is not None else x
        getattr(x, name)(y)
        return base.clone()

    clean = [
        type(o)(o.shape, o.dtype, o.layout, o.seed, o.special and x.dtype.is_floating_point)
        for o in (x, y)
    ]
    return Call(name, write, tuple(clean))


@holds(written())
def test_in_place() -> None:
    """Writing casts to the written dtype or is refused, as promotion has it."""
