"""The element types of a program: their tokens, what PyTorch and MLIR call them, and PyTorch's promotion.

A dtype is its token everywhere in the compiler: a plain string such as ``"f32"``.  Nothing here imports
torch or MLIR.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["ALL", "BOOL", "COMPLEX", "DTYPES", "FLOATS", "HALVES", "INTS", "NUMBERS", "STORED", "DTypeInfo", "by_number",
           "compute_dtype", "info", "memory", "promote", "promote_operands"]


@dataclass(frozen=True)
class DTypeInfo:
    """Facts about one dtype.

    number: PyTorch's ``ScalarType`` number, which the torch dialect uses for dtype arguments.
    torch: element type in the torch dialect.  builtin: element type from linalg on.
    kind: ``float``, ``float8``, ``int``, ``bool`` or ``complex``.  signed: False for unsigned integers and i1.
    numpy: the numpy type with the same bytes (bf16: uint16, c32: uint32, float8: uint8).
    """

    token: str
    number: int
    torch: str
    builtin: str
    kind: str
    bits: int
    signed: bool
    numpy: str


DTYPES = {
    row[0]: DTypeInfo(*row)
    for row in (
        ("f64", 7, "f64", "f64", "float", 64, True, "float64"),
        ("f32", 6, "f32", "f32", "float", 32, True, "float32"),
        ("f16", 5, "f16", "f16", "float", 16, True, "float16"),
        ("bf16", 15, "bf16", "bf16", "float", 16, True, "uint16"),
        ("i64", 4, "si64", "i64", "int", 64, True, "int64"),
        ("i32", 3, "si32", "i32", "int", 32, True, "int32"),
        ("i16", 2, "si16", "i16", "int", 16, True, "int16"),
        ("i8", 1, "si8", "i8", "int", 8, True, "int8"),
        ("u8", 0, "ui8", "i8", "int", 8, False, "uint8"),
        ("u16", 27, "ui16", "i16", "int", 16, False, "uint16"),
        ("u32", 28, "ui32", "i32", "int", 32, False, "uint32"),
        ("u64", 29, "ui64", "i64", "int", 64, False, "uint64"),
        ("f8e5m2", 23, "f8E5M2", "i8", "float8", 8, True, "uint8"),
        ("f8e4m3fn", 24, "f8E4M3FN", "i8", "float8", 8, True, "uint8"),
        ("f8e5m2fnuz", 25, "f8E5M2FNUZ", "i8", "float8", 8, True, "uint8"),
        ("f8e4m3fnuz", 26, "f8E4M3FNUZ", "i8", "float8", 8, True, "uint8"),
        ("f8e8m0fnu", 44, "f8E8M0FNU", "i8", "float8", 8, True, "uint8"),
        ("i1", 11, "i1", "i1", "bool", 1, False, "bool"),
        ("c32", 8, "complex<f16>", "complex<f16>", "complex", 32, True, "uint32"),
        ("c64", 9, "complex<f32>", "complex<f32>", "complex", 64, True, "complex64"),
        ("c128", 10, "complex<f64>", "complex<f64>", "complex", 128, True, "complex128"),
    )
}
"""Every dtype token with its facts."""

FLOATS = ("f32", "f64", "f16", "bf16")
HALVES = ("f16", "bf16")
INTS = ("i64", "i32", "i16", "i8", "u8")
BOOL = ("i1",)
COMPLEX = ("c32", "c64", "c128")
NUMBERS = FLOATS + INTS
ALL = NUMBERS + BOOL
STORED = (*ALL, "u16", "u32", "u64", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0fnu")
"""What is moved and converted; the rest of arithmetic knows no more than ALL."""

_BY_NUMBER = {facts.number: token for token, facts in DTYPES.items()}
_MEMORY = {facts.builtin: token for token, facts in reversed(DTYPES.items())} | {"i8": "u8"}
_RANK = {"bool": 0, "int": 1, "float": 2, "complex": 3}


def info(token: str) -> DTypeInfo:
    """Facts of ``token``; KeyError with the known tokens if there is no such dtype."""
    try:
        return DTYPES[token]
    except KeyError:
        raise KeyError(f"unknown dtype {token!r}; the dtypes are {' '.join(DTYPES)}") from None


def by_number(number: int) -> str:
    """The token of PyTorch's ``ScalarType`` ``number``."""
    try:
        return _BY_NUMBER[number]
    except KeyError:
        raise KeyError(f"no dtype has PyTorch's ScalarType number {number}") from None


def memory(token: str) -> str:
    """The element type of the machine's memory that holds ``token``'s bits: its own, or the integer that it is stored as."""
    return token if token in ALL else _MEMORY[info(token).builtin]


def promote(a: str, b: str) -> str:
    """``torch.promote_types``: the smallest dtype that holds both."""
    if a == b:
        return a
    first, second = info(a), info(b)
    if _RANK[first.kind] != _RANK[second.kind]:
        return a if _RANK[first.kind] > _RANK[second.kind] else b
    if first.kind == "float" and first.bits == second.bits:
        return "f32"  # f16 with bf16
    if first.kind == "int" and "u8" in (a, b):
        other = first if b == "u8" else second
        return "i16" if other.bits == 8 else other.token
    return a if first.bits > second.bits else b


def promote_operands(operands: Iterable[tuple[str, str]]) -> str:
    """``torch.result_type`` of operands given as (dtype, category).

    Categories, strongest first: ``tensor`` (one or more dimensions), ``scalar`` (0-dim tensor), ``number``
    (Python number).  A weaker one only raises the kind of the result, never its width; a Python float
    beside integers gives f32, PyTorch's default dtype.
    """
    best: dict[str, str] = {}
    for dtype, category in operands:
        if category == "number" and info(dtype).kind == "float":
            dtype = "f32"
        best[category] = promote(best[category], dtype) if category in best else dtype
    result: str | None = None
    for category in ("tensor", "scalar", "number"):
        if category not in best:
            continue
        dtype = best[category]
        if result is None or _RANK[info(dtype).kind] > _RANK[info(result).kind]:
            result = dtype if result is None else promote(result, dtype)
    if result is None:
        raise ValueError("promotion needs at least one operand")
    return result


def compute_dtype(token: str) -> str:
    """The dtype in which elementwise arithmetic on ``token`` runs: f32 for the half types, else itself."""
    return "f32" if token in HALVES else token
