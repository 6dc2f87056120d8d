"""Records what a macro does to one element: a straight list of map operations that are no macros.

A macro's function gets a ``MacroBuilder`` and its operands and builds the result by calling the
body's methods; constants are Python numbers, since they lie in registers before a map begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ftm_backend.target.element_types import BY_SUFFIX

Number = float | int


@dataclass(frozen=True)
class MacroValue:
    """A map register: ``v<number>``, holding elements of type ``type`` (a suffix)."""

    number: int
    type: str


Source = MacroValue | Number

SEEDS = {"VFRCP": "VRCP", "VFRSQ": "VRSQRT"}
"""Approximations that the machine has and the assembly does not -> what they approximate."""

SEED_BITS = 8
"""Bits of a seed that are taken to be right; no source says how many there are."""


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
        """Bytes of the widest element that the operation handles."""
        return max(BY_SUFFIX[word].bytes for word in (self.type, self.source_type) if word)


@dataclass(frozen=True)
class FloatFormat:
    """How a float is laid out: its suffix, the integers of its size, digits with the hidden one,
    exponent bias."""

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
        """Bits below the exponent."""
        return self.digits - 1

    @property
    def exponent_mask(self) -> int:
        """The exponent's bits."""
        return (2 * self.bias + 1) << self.stored

    @property
    def magnitude_mask(self) -> int:
        """All bits but the sign."""
        return (1 << (self.bits - 1)) - 1

    @property
    def sign(self) -> int:
        """The sign's bit, as a number of two's complement."""
        return -(1 << (self.bits - 1))

    @property
    def rounder(self) -> float:
        """A number whose unit in the last place is 1: added, it rounds what is small to integers in
        its low bits."""
        return 1.5 * 2.0**self.stored

    @property
    def rounder_bits(self) -> int:
        """``rounder`` as an integer of its size."""
        return ((self.bias + self.stored) << self.stored) | (1 << (self.stored - 1))

    @property
    def least_normal(self) -> float:
        """The smallest number with all digits."""
        return 2.0 ** (1 - self.bias)


FORMATS = {"F32": FloatFormat("F32", "I32", 24, 127), "F64": FloatFormat("F64", "I64", 53, 1023)}
"""Of the types that the machine computes floats in."""


class MacroBuilder:
    """What has been recorded; methods append an operation and return where its result is.

    whole: whether loops have as many steps as any data need, and not one.
    """

    def __init__(self, types: Sequence[str], whole: bool = False) -> None:
        self.operations: list[MacroOperation] = []
        self.inputs = [MacroValue(number, suffix) for number, suffix in enumerate(types)]
        self.whole = whole
        self._next = len(types)

    def steps(self, count: int) -> Iterator[int]:
        """Steps of a loop that goes on until no lane needs more: ``count`` at most, and one for
        nearly all data."""
        yield from range(count if self.whole else 1)

    def _do(
        self, name: str, suffix: str, *sources: Source, result: str = "", source_type: str = ""
    ) -> MacroValue:
        value = MacroValue(self._next, result or suffix)
        self._next += 1
        self.operations.append(MacroOperation(name, suffix, sources, value, source_type))
        return value

    def _typed(self, name: str, *sources: Source, result: str = "") -> MacroValue:
        """An operation of the type that its registers have."""
        suffix = next(source.type for source in sources if isinstance(source, MacroValue))
        return self._do(name, suffix, *sources, result=result)

    def add(self, a: Source, b: Source) -> MacroValue:
        """a + b."""
        return self._typed("VADD", a, b)

    def sub(self, a: Source, b: Source) -> MacroValue:
        """a - b."""
        return self._typed("VSUB", a, b)

    def mul(self, a: Source, b: Source) -> MacroValue:
        """a * b."""
        return self._typed("VMUL", a, b)

    def fma(self, a: Source, b: Source, c: Source) -> MacroValue:
        """a * b + c, rounded once."""
        return self._typed("VFMA", a, b, c)

    def less(self, a: Source, b: Source) -> MacroValue:
        """a < b."""
        return self._typed("VCMPLT", a, b, result="B1")

    def at_most(self, a: Source, b: Source) -> MacroValue:
        """a <= b."""
        return self._typed("VCMPLE", a, b, result="B1")

    def equal(self, a: Source, b: Source) -> MacroValue:
        """a == b."""
        return self._typed("VCMPEQ", a, b, result="B1")

    def differ(self, a: Source, b: Source) -> MacroValue:
        """a != b; true of NaN."""
        return self._typed("VCMPNE", a, b, result="B1")

    def select(self, mask: MacroValue, a: Source, b: Source) -> MacroValue:
        """a where the mask holds, else b: a move under a predicate."""
        suffix = next(source.type for source in (a, b) if isinstance(source, MacroValue))
        return self._do("VSEL", suffix, mask, a, b)

    def choose(self, mask: MacroValue, a: Number, b: Number, suffix: str) -> MacroValue:
        """One of two constants."""
        return self._do("VSEL", suffix, mask, a, b)

    def both(self, a: Source, b: Source) -> MacroValue:
        """Bitwise and; of masks, both."""
        return self._typed("VAND", a, b)

    def either(self, a: Source, b: Source) -> MacroValue:
        """Bitwise or; of masks, either."""
        return self._typed("VOR", a, b)

    def one_of(self, a: Source, b: Source) -> MacroValue:
        """Bitwise exclusive or."""
        return self._typed("VXOR", a, b)

    def opposite(self, mask: MacroValue) -> MacroValue:
        """Where a mask does not hold."""
        return self._typed("VNOT", mask)

    def left(self, a: Source, count: int) -> MacroValue:
        """a shifted left."""
        return self._typed("VSHL", a, count)

    def right(self, a: Source, count: int) -> MacroValue:
        """a shifted right, with copies of its sign."""
        return self._typed("VSHR", a, count)

    def right_zeros(self, a: Source, count: int) -> MacroValue:
        """a shifted right, with zeros."""
        return self._typed("VSHRU", a, count)

    def convert(self, a: MacroValue, to: str) -> MacroValue:
        """The nearest number of another type, or towards zero if that is an integer's."""
        return a if a.type == to else self._do("VCVT", to, a, source_type=a.type)

    def bits(self, a: MacroValue, to: str) -> MacroValue:
        """The same register, seen as another type of its size."""
        return self._do("VBITC", to, a, source_type=a.type)

    def seed(self, name: str, a: MacroValue) -> MacroValue:
        """An approximation (see ``SEEDS``) with ``SEED_BITS`` good bits."""
        return self._typed(name, a)

    # --- what several macros do
    # -------------------------------------------------------------------------

    def polynomial(self, x: MacroValue, coefficients: Sequence[float]) -> Source:
        """The sum of coefficients[i] x^i, by Horner's rule; at least one coefficient."""
        result: Source = coefficients[-1]
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, coefficient)
        return result

    def magnitude(self, x: MacroValue) -> MacroValue:
        """|x|: the bits without the sign."""
        form = FORMATS[x.type]
        return self.bits(self.both(self.bits(x, form.integer), form.magnitude_mask), x.type)

    def with_sign(self, x: MacroValue, signed: MacroValue) -> MacroValue:
        """x, which is not negative, with the sign of another number."""
        form = FORMATS[x.type]
        sign = self.both(self.bits(signed, form.integer), form.sign)
        return self.bits(self.either(self.bits(x, form.integer), sign), x.type)

    def within(self, x: MacroValue, low: float | None, high: float | None) -> MacroValue:
        """x, or the bound that it is beyond; NaN stays."""
        if high is not None:
            x = self.select(self.less(high, x), high, x)
        return x if low is None else self.select(self.less(x, low), low, x)

    def power_of_two(self, exponent: MacroValue, floating: str) -> MacroValue:
        """2^exponent for integers whose power is a normal number."""
        form = FORMATS[floating]
        return self.bits(self.left(self.add(exponent, form.bias), form.stored), floating)


def listing(body: MacroBuilder) -> tuple[list[str], int]:
    """The operations as lines of assembly, seeds by names of their own, and the register of the
    result.

    A register is used again as soon as nothing reads it any more.
    """
    return _written(body, seeds=True)


def runnable(body: MacroBuilder) -> tuple[list[str], int]:
    """The operations as a map body that the emulator runs, and the register of the result.

    A seed is the exact value without its lower bits.
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
