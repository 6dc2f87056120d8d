"""Scalar expressions: the computation of a loop nest's body, written as Python arithmetic.

A `ScalarExpr` is a node of a body with its dtype token. Operators and the functions of
`scalar_math` create ``arith`` and ``math`` operations. The token determines signedness, so ``u8``
divides unsigned. A Python number takes the dtype of the other operand. An expression of constants
and runtime scalars only is *uniform*; it is converted once for the whole program.
"""

from __future__ import annotations

from typing import cast

from ftm_backend.dtypes import DTYPES, info, promote
from ftm_backend.frontend import float8
from ftm_backend.ir.linalg.body_builder import operation
from ftm_backend.ir.linalg.function import Node
from ftm_backend.symbolic import SymFloat, SymInt, round_to_dtype

_Names = dict[str, tuple[str | None, str, str]]

_BINARY: _Names = {  # float, integer, bool
    "add": ("arith.addf", "arith.addi", "arith.ori"),
    "sub": ("arith.subf", "arith.subi", "arith.xori"),
    "mul": ("arith.mulf", "arith.muli", "arith.andi"),
    "and": (None, "arith.andi", "arith.andi"),
    "or": (None, "arith.ori", "arith.ori"),
    "xor": (None, "arith.xori", "arith.xori"),
}
_SIGNED: _Names = {  # float, signed, unsigned
    "div": ("arith.divf", "arith.divsi", "arith.divui"),
    "rem": ("arith.remf", "arith.remsi", "arith.remui"),
    "max": ("arith.maximumf", "arith.maxsi", "arith.maxui"),
    "min": ("arith.minimumf", "arith.minsi", "arith.minui"),
    "maxnum": ("arith.maxnumf", "arith.maxsi", "arith.maxui"),
    "minnum": ("arith.minnumf", "arith.minsi", "arith.minui"),
    "shr": (None, "arith.shrsi", "arith.shrui"),
    "shl": (None, "arith.shli", "arith.shli"),
}
_COMPARE = {  # float (ordered; ne unordered), signed, unsigned
    "eq": (1, 0, 0),
    "ne": (13, 1, 1),
    "lt": (4, 2, 6),
    "le": (5, 3, 7),
    "gt": (2, 4, 8),
    "ge": (3, 5, 9),
}


_WIDEST = 64  # bits
_BUILTIN = {token: facts.builtin for token, facts in DTYPES.items()}


class ScalarEmitter:
    """Creates the nodes of one program; shares constants and conversions of uniform values."""

    def __init__(self) -> None:
        """Start without nodes."""
        self._constants: dict[tuple[str, str], ScalarExpr] = {}
        self._conversions: dict[tuple[int, str], tuple[ScalarExpr, ScalarExpr]] = {}

    def emit(
        self, name: str, token: str, *operands: ScalarExpr, payload: object = None
    ) -> ScalarExpr:
        """Create an operation with one result of dtype `token`."""
        node = operation(name, _BUILTIN[token], tuple(o.node for o in operands), payload)
        return ScalarExpr(self, node, token, all(o.uniform for o in operands))

    def constant(self, value: float | SymInt | SymFloat, token: str) -> ScalarExpr:
        """Create a constant of dtype `token`; integers wrap, bools are ``value != 0``."""
        key = (repr(value), token)
        found = self._constants.get(key)
        if found is None:
            facts = info(token)
            if facts.kind == "float8":
                found = self._constants[key] = self.constant(value, "f32").to(token)
                return found
            if isinstance(value, SymInt) and facts.kind != "float" and facts.bits < _WIDEST:
                # a symbolic size cannot be wrapped now; the conversion wraps it
                return self.converted(self.constant(value, "i64"), token)
            number: float | SymInt | SymFloat
            if facts.kind == "float":
                number = (
                    value
                    if isinstance(value, (SymInt, SymFloat))
                    else round_to_dtype(float(value), token)
                )
            else:
                number = _wrapped(value, facts.kind, facts.bits)
                if facts.kind == "int" and number >= 1 << (facts.bits - 1):
                    number -= 1 << facts.bits
            found = self._constants[key] = ScalarExpr(
                self, Node("constant", facts.builtin, payload=number), token, True
            )
        return found

    def converted(self, elem: ScalarExpr, token: str) -> ScalarExpr:
        """Convert a uniform `elem` to `token`, once for the program."""
        key = (id(elem.node), token)
        found = self._conversions.get(key)
        if found is None:
            # holds `elem`, so that its node's id stays valid
            found = self._conversions[key] = (elem, _convert(elem, token))
        return found[1]


def _wrapped(value: float | SymInt | SymFloat, kind: str, bits: int) -> int:
    if kind == "bool":
        return int(bool(value))
    if isinstance(value, SymInt):
        return cast(int, value)
    return int(cast(float, value)) & ((1 << bits) - 1)


class ScalarExpr:
    """A scalar of a body; see the module's docstring.

    Attributes:
        emitter: Creates the nodes of its program.
        node: Its node.
        dtype: Its dtype token.
        uniform: Whether it depends on constants and runtime scalars only.
    """

    __slots__ = ("dtype", "emitter", "node", "uniform")

    def __init__(
        self, emitter: ScalarEmitter, node: Node, dtype: str, uniform: bool = False
    ) -> None:
        """Wrap a node."""
        self.emitter, self.node, self.dtype, self.uniform = emitter, node, dtype, uniform

    @property
    def is_float(self) -> bool:
        """Whether the dtype is floating-point."""
        return info(self.dtype).kind == "float"

    @property
    def is_bool(self) -> bool:
        """Whether the dtype is i1."""
        return self.dtype == "i1"

    def to(self, token: str) -> ScalarExpr:
        """Convert as PyTorch does: floats truncate toward zero to integers; nonzero is True."""
        if token == self.dtype:
            return self
        if self.uniform:
            return self.emitter.converted(self, token)
        return _convert(self, token)

    def const(self, value: float) -> ScalarExpr:
        """Create a constant of this expression's dtype."""
        return self.emitter.constant(value, self.dtype)

    def bitcast(self, token: str) -> ScalarExpr:
        """Reinterpret the bits as `token`."""
        return self.emitter.emit("arith.bitcast", token, self)

    def _pair(self, other: Number) -> tuple[ScalarExpr, ScalarExpr]:
        if not isinstance(other, ScalarExpr):
            return self, self.const(other)
        if other.dtype == self.dtype:
            return self, other
        token = promote(self.dtype, other.dtype)
        return self.to(token), other.to(token)

    def _binary(self, table: _Names, name: str, other: Number, swap: bool = False) -> ScalarExpr:
        a, b = self._pair(other)
        if swap:
            a, b = b, a
        facts = info(a.dtype)
        if table is _SIGNED:
            column = 0 if facts.kind == "float" else 1 if facts.signed else 2
        else:
            column = 0 if facts.kind == "float" else 1 if facts.kind == "int" else 2
        op = table[name][column]
        if op is None:
            raise TypeError(f"{name} is not defined for {a.dtype}")
        return a.emitter.emit(op, a.dtype, a, b)

    def _compare(self, name: str, other: Number) -> ScalarExpr:
        a, b = self._pair(other)
        facts = info(a.dtype)
        column = 0 if facts.kind == "float" else 1 if facts.signed else 2
        op = "arith.cmpf" if facts.kind == "float" else "arith.cmpi"
        return a.emitter.emit(op, "i1", a, b, payload=_COMPARE[name][column])

    def __add__(self, other: Number) -> ScalarExpr:
        """Return ``self + other``."""
        return self._binary(_BINARY, "add", other)

    __radd__ = __add__

    def __sub__(self, other: Number) -> ScalarExpr:
        """Return ``self - other``."""
        return self._binary(_BINARY, "sub", other)

    def __rsub__(self, other: Number) -> ScalarExpr:
        """Return ``other - self``."""
        return self._binary(_BINARY, "sub", other, swap=True)

    def __mul__(self, other: Number) -> ScalarExpr:
        """Return ``self * other``."""
        return self._binary(_BINARY, "mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Number) -> ScalarExpr:
        """Return ``self / other``."""
        return self._binary(_SIGNED, "div", other)

    def __rtruediv__(self, other: Number) -> ScalarExpr:
        """Return ``other / self``."""
        return self._binary(_SIGNED, "div", other, swap=True)

    def __mod__(self, other: Number) -> ScalarExpr:
        """Return the remainder of C: it has the dividend's sign."""
        return self._binary(_SIGNED, "rem", other)

    def __neg__(self) -> ScalarExpr:
        """Return ``-self``."""
        if self.is_float:
            return self.emitter.emit("arith.negf", self.dtype, self)
        return self.const(0) - self

    def __and__(self, other: Number) -> ScalarExpr:
        """Return ``self & other``."""
        return self._binary(_BINARY, "and", other)

    def __or__(self, other: Number) -> ScalarExpr:
        """Return ``self | other``."""
        return self._binary(_BINARY, "or", other)

    def __xor__(self, other: Number) -> ScalarExpr:
        """Return ``self ^ other``."""
        return self._binary(_BINARY, "xor", other)

    def __invert__(self) -> ScalarExpr:
        """Return ``~self``."""
        return self ^ (1 if self.is_bool else -1)

    def __lshift__(self, other: Number) -> ScalarExpr:
        """Return ``self << other``."""
        return self._binary(_SIGNED, "shl", other)

    def __rshift__(self, other: Number) -> ScalarExpr:
        """Return ``self >> other``."""
        return self._binary(_SIGNED, "shr", other)

    def eq(self, other: Number) -> ScalarExpr:
        """Return ``self == other`` as i1; False for NaN."""
        return self._compare("eq", other)

    def ne(self, other: Number) -> ScalarExpr:
        """Return ``self != other`` as i1; True for NaN."""
        return self._compare("ne", other)

    def __lt__(self, other: Number) -> ScalarExpr:
        """Return ``self < other``."""
        return self._compare("lt", other)

    def __le__(self, other: Number) -> ScalarExpr:
        """Return ``self <= other``."""
        return self._compare("le", other)

    def __gt__(self, other: Number) -> ScalarExpr:
        """Return ``self > other``."""
        return self._compare("gt", other)

    def __ge__(self, other: Number) -> ScalarExpr:
        """Return ``self >= other``."""
        return self._compare("ge", other)

    def __abs__(self) -> ScalarExpr:
        """Return ``abs(self)``."""
        if self.is_float:
            return self.emitter.emit("math.absf", self.dtype, self)
        return self if not info(self.dtype).signed or self.is_bool else where(self < 0, -self, self)

    def maximum(self, other: Number) -> ScalarExpr:
        """Return the larger operand; NaN if either is NaN."""
        return self._binary(_SIGNED, "max", other)

    def minimum(self, other: Number) -> ScalarExpr:
        """Return the smaller operand; NaN if either is NaN."""
        return self._binary(_SIGNED, "min", other)

    def maxnum(self, other: Number) -> ScalarExpr:
        """Return the larger operand; the other operand if one is NaN."""
        return self._binary(_SIGNED, "maxnum", other)

    def minnum(self, other: Number) -> ScalarExpr:
        """Return the smaller operand; the other operand if one is NaN."""
        return self._binary(_SIGNED, "minnum", other)


Number = ScalarExpr | float
"""A scalar operand: computed, passed at run time, or a Python number."""


def _to_float(x: ScalarExpr, token: str) -> ScalarExpr:
    """Convert a number to a floating-point type of 16 to 64 bits."""
    source, target, emit = info(x.dtype), info(token), x.emitter.emit
    if source.kind != "float":
        if target.bits == 16:  # PyTorch converts integers to half types through float32
            return x.to("f32").to(token)
        return emit("arith.sitofp" if source.signed else "arith.uitofp", token, x)
    if target.bits > source.bits:
        return emit("arith.extf", token, x)
    if target.bits == source.bits or (source.bits == 64 and target.bits == 16):
        return x.to("f32").to(token)
    return emit("arith.truncf", token, x)


def _float_to_integer(x: ScalarExpr, token: str) -> ScalarExpr:
    """Convert a floating-point number to an integer type."""
    source, target, emit = info(x.dtype), info(token), x.emitter.emit
    if source.bits == 16:
        return x.to("f32").to(token)
    if target.bits < 32:  # as C++ compilers do: the low bits of a conversion to 32 bits
        return emit("arith.fptosi", "i32", x).to(token)
    if target.signed:
        return emit("arith.fptosi", token, x)
    wide = emit("arith.fptosi", "i64", x)
    if target.bits == 64:  # above the signed range, convert ``x - 2**63`` and set the top bit
        wide = where(x < 2.0**63, wide, emit("arith.fptosi", "i64", x - 2.0**63) ^ -(1 << 63))
    return wide.to(token)


def _convert(x: ScalarExpr, token: str) -> ScalarExpr:
    source, target, emit = info(x.dtype), info(token), x.emitter.emit
    if "complex" in (source.kind, target.kind):
        raise TypeError(
            f"no conversion from {x.dtype} to {token}: complex numbers are not compiled"
        )
    if source.kind == "float8":
        return float8.decode(x).to(token)
    if target.kind == "float8":
        return float8.encode(x.to("f32"), token)
    if target.kind == "bool":
        return x.ne(0)
    if target.kind == "float":
        return _to_float(x, token)
    if source.kind == "float":
        return _float_to_integer(x, token)
    if target.bits > source.bits:
        return emit("arith.extsi" if source.signed else "arith.extui", token, x)
    if target.bits < source.bits:
        return emit("arith.trunci", token, x)
    return ScalarExpr(x.emitter, x.node, token, x.uniform)  # same bits, other signedness


def where(condition: ScalarExpr, a: Number, b: Number) -> ScalarExpr:
    """Select `a` where `condition` (i1) is true, else `b`; at least one is a ScalarExpr."""
    if isinstance(a, ScalarExpr):
        a, b = a._pair(b)
    elif isinstance(b, ScalarExpr):
        b, a = b._pair(a)
    else:
        raise TypeError(f"neither {a} nor {b} has a dtype, so the result's is undefined")
    return a.emitter.emit("arith.select", a.dtype, condition, a, b)
