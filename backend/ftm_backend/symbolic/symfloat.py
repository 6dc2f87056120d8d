"""Floating numbers that come from sizes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np

from ftm_backend.symbolic.expression_compiler import SymbolicExpressionError, evaluator
from ftm_backend.symbolic.shape_env import current
from ftm_backend.symbolic.symint import SymInt

__all__ = ["FloatBits", "SymFloat", "operation", "read_real", "real", "rounded"]


class SymFloat:
    """A floating number that remembers the sizes that it comes from, such as the share of one
    element in a mean.

    Arithmetic keeps the expression, in the order in which Python computed it, so that it gives the
    same bits for other sizes. What asks for the number itself is special for the one at hand.
    """

    __slots__ = ("_sizes", "text", "value")

    def __init__(self, text: str, value: float, sizes: tuple[SymInt, ...]) -> None:
        self.text, self.value, self._sizes = text, value, sizes

    def __repr__(self) -> str:
        return "{=" + self.text + "}"

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SymFloat):
            return self.text == other.text or float(self) == float(other)
        return float(self) == other

    def __bool__(self) -> bool:
        return float(self) != 0

    def __float__(self) -> float:
        for size in self._sizes:
            int(size)
        return self.value

    def __neg__(self) -> SymFloat:
        return SymFloat(f"(-{self.text})", -self.value, self._sizes)

    def __add__(self, other: Number) -> SymFloat:
        return operation("+", self, other)

    def __radd__(self, other: Number) -> SymFloat:
        return operation("+", other, self)

    def __sub__(self, other: Number) -> SymFloat:
        return operation("-", self, other)

    def __rsub__(self, other: Number) -> SymFloat:
        return operation("-", other, self)

    def __mul__(self, other: Number) -> SymFloat:
        return operation("*", self, other)

    def __rmul__(self, other: Number) -> SymFloat:
        return operation("*", other, self)

    def __truediv__(self, other: Number) -> SymFloat:
        return operation("/", self, other)

    def __rtruediv__(self, other: Number) -> SymFloat:
        return operation("/", other, self)

    def __lt__(self, other: Number) -> bool:
        return float(self) < other

    def __le__(self, other: Number) -> bool:
        return float(self) <= other

    def __gt__(self, other: Number) -> bool:
        return float(self) > other

    def __ge__(self, other: Number) -> bool:
        return float(self) >= other


Number = SymFloat | SymInt | float

_REAL: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def real(number: Number) -> SymFloat:
    """A size as a floating number."""
    return number if isinstance(number, SymFloat) else operation("*", number, 1.0)


def operation(symbol: str, left: Number, right: Number) -> SymFloat:
    """One operation on numbers of which at least one is a size or comes from one."""
    texts: list[str] = []
    values: list[float] = []
    sizes: list[SymInt] = []
    for number in (left, right):
        if isinstance(number, SymFloat):
            sizes += number._sizes
            texts.append(number.text)
            values.append(number.value)
        elif isinstance(number, SymInt):
            sizes.append(number)
            texts.append(f"[{number.text}]")
            values.append(number.value)
        else:
            texts.append(repr(number))
            values.append(number)
    return SymFloat(f"({texts[0]}{symbol}{texts[1]})", _REAL[symbol](*values), tuple(sizes))


class FloatBits:
    """The bits of a floating number in some type, for the pool of an image; ``text`` is its
    expression."""

    __slots__ = ("_symbols", "text")

    def __init__(self, text: str, dtype: str) -> None:
        self.text, self._symbols = f"{dtype}:{text}", current()

    def __index__(self) -> int:
        assert self._symbols is not None, "bits are of a general program"
        return self._symbols.placeholder(self)


def read_real(text: str) -> SymFloat:
    """The floating number that ``{=(1/[s0])}`` spells."""
    symbols = current()
    if symbols is None:
        raise SymbolicExpressionError(
            f"{text} comes from a size of a general program, but no sizes are declared"
        )
    number = evaluator([text[2:-1]], tuple(symbols.values), real=True)(*symbols.values.values())[0]
    return SymFloat(text[2:-1], number, ())


def rounded(value: float, token: str) -> float:
    """The number of type ``token`` that ``value`` is rounded to, as MLIR's attributes do."""
    if token == "f64" or value != value or value in (math.inf, -math.inf):
        return value
    if token == "bf16":
        short = np.float32(value).view(np.uint32)
        return float(
            ((short + 0x7FFF + ((short >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
        )
    with np.errstate(over="ignore"):
        return float(np.float32(value) if token == "f32" else np.float16(value))
