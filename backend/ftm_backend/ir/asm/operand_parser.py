"""Parses operands, and finds the column of an operand for error messages."""

from __future__ import annotations

import re
from typing import cast

from ftm_backend import symbolic
from ftm_backend.ir.asm import program as p

NAME = r"[A-Za-z_][A-Za-z0-9_.$]*"
_INTEGER = rf"(?:[-+]?\d+|{symbolic.SIZE_PATTERN})"
_REGISTER = re.compile(r"r(\d+)", re.ASCII)
_VECTOR = re.compile(r"v(\d+)", re.ASCII)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?inf|nan", re.ASCII)
_WHOLE = re.compile(_INTEGER, re.ASCII)
_REFERENCE = re.compile(
    rf"({NAME})\[\s*(?:r(\d+)\s*([-+]\s*\d+|\+{symbolic.SIZE_PATTERN})?|({_INTEGER}))\s*\]",
    re.ASCII,
)
_BARE = re.compile(NAME)
_RESERVED = re.compile(r"[rv]\d+|inf|nan", re.ASCII)
_SHAPE = re.compile(
    rf"(?:\d+|{symbolic.SIZE_PATTERN})(?:x(?:\d+|{symbolic.SIZE_PATTERN}))*", re.ASCII
)


class OperandError(ValueError):
    """A text is not an operand; ``offset`` is the position of the error within it."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset


def whole(digits: str) -> int:
    """Parse decimal digits with a sign, or a symbolic size; OperandError above 64 bits."""
    if digits.endswith("}"):
        return _size(digits.removeprefix("+"))
    value = int(digits) if len(digits) <= 20 else 1 << 64
    if not -(1 << 63) <= value < 1 << 64:
        shown = digits if len(digits) <= 24 else f"{digits[:20]}... ({len(digits)} digits)"
        raise OperandError(f"{shown} is too large: numbers have at most 64 bits")
    return value


def _size(text: str) -> int:
    try:
        return symbolic.parse_size(text)
    except symbolic.SymbolicExpressionError as error:
        raise OperandError(str(error)) from None


def _real(text: str) -> float:
    try:
        return cast(float, symbolic.parse_symfloat(text))
    except symbolic.SymbolicExpressionError as error:
        raise OperandError(str(error)) from None


def integer(text: str, role: str) -> int:
    """Parse a decimal integer; ``role`` describes it in the error message."""
    if not _WHOLE.fullmatch(text):
        raise OperandError(f"expected {role} (an integer), found {text!r}")
    return whole(text)


def name(text: str, role: str) -> str:
    """Check an identifier; ``role`` describes it in the error message."""
    if not _BARE.fullmatch(text) or _RESERVED.fullmatch(text):
        raise OperandError(f"expected {role} (a name of letters, digits and _), found {text!r}")
    return text


def shape(text: str) -> tuple[int, ...]:
    """Parse a shape such as ``64x64``, or ``[]`` for no dimensions."""
    if text == "[]":
        return ()
    if not _SHAPE.fullmatch(text):
        raise OperandError(f"expected a shape such as 64x64 or [], found {text!r}")
    return tuple(whole(part) for part in text.split("x"))


def scalar(text: str) -> p.Scalar:
    """Parse a register, an integer, a float, or the name of a program scalar."""
    match = _REGISTER.fullmatch(text)
    if match:
        return p.Register(whole(match[1]))
    if text.startswith("{="):
        return p.Immediate(_real(text))
    if _NUMBER.fullmatch(text) or text.endswith("}"):
        return p.Immediate(whole(text) if _WHOLE.fullmatch(text) else float(text))
    if _BARE.fullmatch(text) and not _RESERVED.fullmatch(text):
        return p.SymbolName(text)
    raise OperandError(f"expected a register, a number or a scalar, found {text!r}")


def reference(text: str) -> p.SlotReference:
    """Parse a tile slot or a buffer address: ``X``, ``X[3]``, ``X[r5]``, ``b0[r3+12]``."""
    match = _REFERENCE.fullmatch(text)
    if match:
        base, register, offset, constant = match.groups()
        if register is None:
            return p.SlotReference(base, -1, whole(constant))
        return p.SlotReference(
            base, whole(register), whole(offset.replace(" ", "")) if offset else 0
        )
    if _BARE.fullmatch(text) and not _RESERVED.fullmatch(text):
        return p.SlotReference(text)
    raise OperandError(
        f"expected a tile slot or a buffer address such as X[r5] or b0[r3+12], found {text!r}"
    )


def dims(text: str) -> p.Dims[p.Scalar]:
    """Parse ``2@512 r7@64 | 8@1``, or ``1024 | 64@1`` for transfers of rows."""
    left, bar, right = text.partition("|")
    if not bar:
        raise OperandError(
            "expected `|` between the row and the column dimensions, as in 16@64 | 64@1", len(text)
        )
    columns = _side(right, len(left) + 1)
    if "@" not in left:
        return p.Dims((), columns, scalar(left.strip()))
    return p.Dims(_side(left, 0), columns)


def _side(text: str, start: int) -> tuple[tuple[p.Scalar, p.Scalar], ...]:
    pairs = []
    for word in re.finditer(r"\S+", text):
        extent, at, stride = word[0].partition("@")
        if not at or not extent or not stride:
            raise OperandError(f"expected extent@stride, found {word[0]!r}", start + word.start())
        pairs.append((scalar(extent), scalar(stride)))
    if not pairs:
        raise OperandError("expected at least one extent@stride on each side of `|`", start)
    return tuple(pairs)


def operand(text: str) -> p.Operand:
    """Parse an operand of any kind; a bare name becomes a `SymbolName`."""
    if "|" in text:
        return dims(text)
    if text.endswith("]"):
        return reference(text)
    match = _VECTOR.fullmatch(text)
    if match:
        return p.VectorRegister(whole(match[1]))
    if "@" in text:
        raise OperandError(
            "expected `|` between the row and the column dimensions, as in 16@64 | 64@1", len(text)
        )
    return scalar(text)


def operand_column(source: str, index: int) -> int:
    """Return the column (from 1) at which an operand of an instruction starts in its line.

    Args:
        source: The line.
        index: Number of the operand. On a ``@map`` line operand 0 is the extents, followed by the
            inputs and outputs in order.
    """
    code = source.split("//", 1)[0]
    start = re.match(r"\s*(?:\[[^\]]*\]\s*)?\S+\s*", code)
    if start is None:
        return 1
    position = start.end()
    for part in re.split(r"(,|->)", code[position:]):
        if part in (",", "->"):
            index -= 1
        elif index <= 0:
            return position + len(part) - len(part.lstrip()) + 1
        position += len(part)
    return len(code.rstrip()) + 1


def mnemonic_column(source: str) -> int:
    """Return the column (from 1) of the mnemonic, after the indent and the predicate."""
    match = re.match(r"\s*(?:\[[^\]]*\]\s*)?", source)
    return match.end() + 1 if match else 1
