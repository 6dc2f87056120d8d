"""Records the expansion of a map operation: a straight list of primitive map operations.

The expansion function of a macro receives a `MacroBuilder` and its operands, and builds the result
by calling the builder's methods. Constants are Python numbers, since they are in registers before a
map starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ftm_backend.target.element_types import BY_SUFFIX

Number = float | int


@dataclass(frozen=True)
class MacroValue:
    """A map register ``v<number>`` with elements of type ``type`` (a suffix)."""

    number: int
    type: str


Source = MacroValue | Number

SEEDS = {"VFRCP": "VRCP", "VFRSQ": "VRSQRT"}
"""Approximations of the machine that the assembly does not have -> the exact operation."""

SEED_BITS = 8
"""Correct bits of a seed; an assumption, as no source gives the number."""


@dataclass(frozen=True)
class MacroOperation:
    """One operation: ``name.type.source_type sources, result``."""

    name: str
    type: str
    sources: tuple[Source, ...]
    result: MacroValue
    source_type: str = ""

    @property
    def bytes(self) -> int:
        """Bytes of the widest element that is read or written."""
        return max(BY_SUFFIX[word].bytes for word in (self.type, self.source_type) if word)


@dataclass(frozen=True)
class FloatFormat:
    """Layout of a floating-point type.

    Attributes:
        type: Its suffix.
        integer: Suffix of the integer type of the same size.
        digits: Digits of the significand, including the hidden one.
        bias: Exponent bias.
    """

    type: str
    integer: str
    digits: int
    bias: int

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return BY_SUFFIX[self.type].bits

    @property
    def stored(self) -> int:
        """Stored bits of the significand, which are below the exponent."""
        return self.digits - 1

    @property
    def exponent_mask(self) -> int:
        """Mask of the exponent."""
        return (2 * self.bias + 1) << self.stored

    @property
    def magnitude_mask(self) -> int:
        """Mask of all bits but the sign."""
        return (1 << (self.bits - 1)) - 1

    @property
    def sign(self) -> int:
        """The sign bit, as a two's complement number."""
        return -(1 << (self.bits - 1))

    @property
    def rounder(self) -> float:
        """A number whose ulp is 1: adding it rounds small numbers to integers in its low bits."""
        return 1.5 * 2.0**self.stored

    @property
    def rounder_bits(self) -> int:
        """The bits of ``rounder`` as an integer."""
        return ((self.bias + self.stored) << self.stored) | (1 << (self.stored - 1))

    @property
    def least_normal(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)


FORMATS = {"F32": FloatFormat("F32", "I32", 24, 127), "F64": FloatFormat("F64", "I64", 53, 1023)}
"""Types that the machine computes floats in."""


class MacroBuilder:
    """Records operations. Methods append an operation and return the register of its result.

    Args:
        types: Type suffixes of the operands.
        whole: Record as many steps of data-dependent loops as any data may need, instead of one.
    """

    def __init__(self, types: Sequence[str], whole: bool = False) -> None:
        self.operations: list[MacroOperation] = []
        self.inputs = [MacroValue(number, suffix) for number, suffix in enumerate(types)]
        self.whole = whole
        self._next = len(types)

    def steps(self, count: int) -> Iterator[int]:
        """Yield the steps of a loop that ends when no lane needs more: at most ``count``."""
        yield from range(count if self.whole else 1)

    def _do(
        self, name: str, suffix: str, *sources: Source, result: str = "", source_type: str = ""
    ) -> MacroValue:
        value = MacroValue(self._next, result or suffix)
        self._next += 1
        self.operations.append(MacroOperation(name, suffix, sources, value, source_type))
        return value

    def _typed(self, name: str, *sources: Source, result: str = "") -> MacroValue:
        """Append an operation whose type is that of its registers."""
        suffix = next(source.type for source in sources if isinstance(source, MacroValue))
        return self._do(name, suffix, *sources, result=result)

    def add(self, a: Source, b: Source) -> MacroValue:
        """Return a + b."""
        return self._typed("VADD", a, b)

    def sub(self, a: Source, b: Source) -> MacroValue:
        """Return a - b."""
        return self._typed("VSUB", a, b)

    def mul(self, a: Source, b: Source) -> MacroValue:
        """Return a * b."""
        return self._typed("VMUL", a, b)

    def fma(self, a: Source, b: Source, c: Source) -> MacroValue:
        """Return a * b + c, rounded once."""
        return self._typed("VFMA", a, b, c)

    def less(self, a: Source, b: Source) -> MacroValue:
        """Return a < b."""
        return self._typed("VCMPLT", a, b, result="B1")

    def less_equal(self, a: Source, b: Source) -> MacroValue:
        """Return a <= b."""
        return self._typed("VCMPLE", a, b, result="B1")

    def equal(self, a: Source, b: Source) -> MacroValue:
        """Return a == b."""
        return self._typed("VCMPEQ", a, b, result="B1")

    def not_equal(self, a: Source, b: Source) -> MacroValue:
        """Return a != b, which is true for NaN."""
        return self._typed("VCMPNE", a, b, result="B1")

    def select(self, mask: MacroValue, a: Source, b: Source) -> MacroValue:
        """Return a where the mask is true, else b: a predicated move."""
        suffix = next(source.type for source in (a, b) if isinstance(source, MacroValue))
        return self._do("VSEL", suffix, mask, a, b)

    def choose(self, mask: MacroValue, a: Number, b: Number, suffix: str) -> MacroValue:
        """Return one of two constants of type ``suffix``."""
        return self._do("VSEL", suffix, mask, a, b)

    def and_(self, a: Source, b: Source) -> MacroValue:
        """Return the bitwise and; for masks the conjunction."""
        return self._typed("VAND", a, b)

    def or_(self, a: Source, b: Source) -> MacroValue:
        """Return the bitwise or; for masks the disjunction."""
        return self._typed("VOR", a, b)

    def xor(self, a: Source, b: Source) -> MacroValue:
        """Return the bitwise exclusive or."""
        return self._typed("VXOR", a, b)

    def not_(self, mask: MacroValue) -> MacroValue:
        """Return the negation of a mask."""
        return self._typed("VNOT", mask)

    def shift_left(self, a: Source, count: int) -> MacroValue:
        """Return a shifted left."""
        return self._typed("VSHL", a, count)

    def shift_right(self, a: Source, count: int) -> MacroValue:
        """Return a shifted right, filling with its sign."""
        return self._typed("VSHR", a, count)

    def shift_right_logical(self, a: Source, count: int) -> MacroValue:
        """Return a shifted right, filling with zeros."""
        return self._typed("VSHRU", a, count)

    def convert(self, a: MacroValue, to: str) -> MacroValue:
        """Convert to another type: to nearest; towards zero if that is an integer type."""
        return a if a.type == to else self._do("VCVT", to, a, source_type=a.type)

    def bits(self, a: MacroValue, to: str) -> MacroValue:
        """Reinterpret the register as another type of the same size."""
        return self._do("VBITC", to, a, source_type=a.type)

    def seed(self, name: str, a: MacroValue) -> MacroValue:
        """Return an approximation (see `SEEDS`) with `SEED_BITS` correct bits."""
        return self._typed(name, a)

    # --- common subexpansions
    # ------------------------------------------------------------------------------

    def polynomial(self, x: MacroValue, coefficients: Sequence[float]) -> Source:
        """Evaluate the sum of coefficients[i] x^i by Horner's rule; at least one coefficient."""
        result: Source = coefficients[-1]
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, coefficient)
        return result

    def magnitude(self, x: MacroValue) -> MacroValue:
        """Return |x|."""
        form = FORMATS[x.type]
        return self.bits(self.and_(self.bits(x, form.integer), form.magnitude_mask), x.type)

    def with_sign(self, x: MacroValue, signed: MacroValue) -> MacroValue:
        """Return x, which is not negative, with the sign of another number."""
        form = FORMATS[x.type]
        sign = self.and_(self.bits(signed, form.integer), form.sign)
        return self.bits(self.or_(self.bits(x, form.integer), sign), x.type)

    def clamp(self, x: MacroValue, low: float | None, high: float | None) -> MacroValue:
        """Clamp x to [low, high]; NaN stays."""
        if high is not None:
            x = self.select(self.less(high, x), high, x)
        return x if low is None else self.select(self.less(x, low), low, x)

    def power_of_two(self, exponent: MacroValue, floating: str) -> MacroValue:
        """Return 2^exponent for an integer exponent whose power is a normal number."""
        form = FORMATS[floating]
        return self.bits(self.shift_left(self.add(exponent, form.bias), form.stored), floating)


def listing(body: MacroBuilder) -> tuple[list[str], int]:
    """Print the operations as assembly, with seeds as if they were instructions.

    Returns:
        The lines, and the register of the result. A register is reused after its last read.
    """
    return _written(body, seeds=True)


def runnable(body: MacroBuilder) -> tuple[list[str], int]:
    """Print the operations as a map body that the emulator can execute.

    A seed is the exact value with its low bits cleared.

    Returns:
        The lines, and the register of the result.
    """
    return _written(body, seeds=False)


def _written(body: MacroBuilder, seeds: bool) -> tuple[list[str], int]:
    last = {
        source.number: at
        for at, operation in enumerate(body.operations)
        for source in _read(operation)
    }
    names = {value.number: value.number for value in body.inputs}
    free: list[int] = []
    lines: list[str] = []
    most = len(names)
    for at, operation in enumerate(body.operations):
        words = [
            f"v{names[source.number]}" if isinstance(source, MacroValue) else repr(source)
            for source in operation.sources
        ]
        free += {names[source.number] for source in _read(operation) if last[source.number] == at}
        if free:
            name = free.pop()
        else:
            name, most = most, most + 1
        names[operation.result.number] = name
        if operation.name in SEEDS and not seeds:
            lines += _truncated(operation, words[0], f"v{name}")
        else:
            suffixes = ".".join(
                word for word in (operation.name, operation.type, operation.source_type) if word
            )
            lines.append(f"{suffixes} {', '.join([*words, f'v{name}'])}")
    return lines, names[body.operations[-1].result.number]


def _read(operation: MacroOperation) -> list[MacroValue]:
    return [source for source in operation.sources if isinstance(source, MacroValue)]


def _truncated(operation: MacroOperation, source: str, result: str) -> list[str]:
    form = FORMATS[operation.type]
    kept = -1 << (form.stored - SEED_BITS)
    return [
        f"{SEEDS[operation.name]}.{form.type} {source}, {result}",
        f"VBITC.{form.integer}.{form.type} {result}, {result}",
        f"VAND.{form.integer} {result}, {kept}, {result}",
        f"VBITC.{form.type}.{form.integer} {result}, {result}",
    ]
