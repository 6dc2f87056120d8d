"""`SymFloat`: a floating-point number computed from sizes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ftm_backend.symbolic.expression_compiler import SymbolicExpressionError, compile_expressions
from ftm_backend.symbolic.shape_env import current_env
from ftm_backend.symbolic.symint import SymInt


class SymFloat:
    """A floating-point number with the expression of sizes that produces it.

    Example: a mean over ``s0`` rows multiplies by ``1/[s0]``. The expression keeps the order of
    Python's evaluation, so other sizes give the same bits as PyTorch. Converting to float
    specializes the sizes.
    """

    __slots__ = ("_sizes", "text", "value")

    def __init__(self, text: str, value: float, sizes: tuple[SymInt, ...]) -> None:
        """Create a number from its expression, its hint, and the sizes that occur in it."""
        self.text, self.value, self._sizes = text, value, sizes

    def __repr__(self) -> str:
        """Return the expression in braces, as `parse_symfloat` parses it."""
        return "{=" + self.text + "}"

    def __hash__(self) -> int:
        """Hash the expression."""
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        """Compare the expressions, else specialize and compare the values."""
        if isinstance(other, SymFloat):
            return self.text == other.text or float(self) == float(other)
        return float(self) == other

    def __bool__(self) -> bool:
        """Specialize, and return whether the value is nonzero."""
        return float(self) != 0

    def __float__(self) -> float:
        """Specialize all sizes and return the value."""
        for size in self._sizes:
            int(size)
        return self.value

    def __neg__(self) -> SymFloat:
        """Return ``-self``."""
        return SymFloat(f"(-{self.text})", -self.value, self._sizes)

    def __add__(self, other: Number) -> SymFloat:
        """Return ``self + other``."""
        return operation("+", self, other)

    def __radd__(self, other: Number) -> SymFloat:
        """Return ``other + self``."""
        return operation("+", other, self)

    def __sub__(self, other: Number) -> SymFloat:
        """Return ``self - other``."""
        return operation("-", self, other)

    def __rsub__(self, other: Number) -> SymFloat:
        """Return ``other - self``."""
        return operation("-", other, self)

    def __mul__(self, other: Number) -> SymFloat:
        """Return ``self * other``."""
        return operation("*", self, other)

    def __rmul__(self, other: Number) -> SymFloat:
        """Return ``other * self``."""
        return operation("*", other, self)

    def __truediv__(self, other: Number) -> SymFloat:
        """Return ``self / other``."""
        return operation("/", self, other)

    def __rtruediv__(self, other: Number) -> SymFloat:
        """Return ``other / self``."""
        return operation("/", other, self)

    def __lt__(self, other: Number) -> bool:
        """Return ``self < other``."""
        return float(self) < other

    def __le__(self, other: Number) -> bool:
        """Return ``self <= other``."""
        return float(self) <= other

    def __gt__(self, other: Number) -> bool:
        """Return ``self > other``."""
        return float(self) > other

    def __ge__(self, other: Number) -> bool:
        """Return ``self >= other``."""
        return float(self) >= other


Number = SymFloat | SymInt | float

_REAL: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def as_symfloat(number: Number) -> SymFloat:
    """Convert a size to a `SymFloat`."""
    return number if isinstance(number, SymFloat) else operation("*", number, 1.0)


def operation(symbol: str, left: Number, right: Number) -> SymFloat:
    """Apply one of ``+ - * /`` to numbers; at least one is symbolic."""
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


class FloatBits(NamedTuple):
    """The bit pattern of a symbolic float in a dtype, for the constant pool of an image.

    Attributes:
        text: ``dtype:expression``.
        value: The bits for the sizes seen.
    """

    text: str
    value: int


def parse_symfloat(text: str) -> SymFloat:
    """Parse a number such as ``{=(1/[s0])}`` in the current environment.

    Raises:
        SymbolicExpressionError: The text is no such number, or no environment is entered.
    """
    symbols = current_env()
    if symbols is None:
        raise SymbolicExpressionError(
            f"{text} comes from a size of a general program, but no sizes are declared"
        )
    number = compile_expressions([text[2:-1]], tuple(symbols.values), real=True)(
        *symbols.values.values()
    )[0]
    return SymFloat(text[2:-1], number, ())


def round_to_dtype(value: float, token: str) -> float:
    """Round `value` to dtype `token`, as MLIR's float attributes do."""
    if token == "f64" or value != value or value in (math.inf, -math.inf):
        return value
    if token == "bf16":
        bits = np.float32(value).view(np.uint32)
        return float(
            ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
        )
    with np.errstate(over="ignore"):
        return float(np.float32(value) if token == "f32" else np.float16(value))
