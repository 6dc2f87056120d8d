"""Record: the element types of programs and of the machine, and PyTorch's type promotion.

Throughout the compiler a dtype is its token, a plain string such as ``"f32"``. This table is the
only source of dtype facts: names in PyTorch, MLIR, numpy and the assembly, the recorder's table
(``csrc/graph/dtypes_gen.h``) and the machine's (``ftm_machine.h``, ``isa_gen.h``). Imports neither
torch nor MLIR.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class DTypeInfo:
    """Facts about one dtype.

    Attributes:
        token: The compiler's name.
        number: PyTorch's ``ScalarType``, which the torch dialect uses for dtype arguments.
        name: PyTorch's name in Python.
        torch: Element type in the torch dialect.
        builtin: Element type from linalg on.
        kind: ``float``, ``float8``, ``int``, ``bool`` or ``complex``.
        bits: Width of an element.
        signed: False for unsigned integers and i1.
        digits: Binary digits of the integers that it represents exactly, without the sign; of a
            complex dtype, those of its parts.
        numpy: The numpy type with the same bytes (bf16: uint16, c32: uint32, float8: uint8).
        code: Number of the machine's element type in images and in its interface; None for a dtype
            that the machine stores as another type.
        suffix: The element type's name in map operations; empty without `code`.
    """

    token: str
    number: int
    name: str
    torch: str
    builtin: str
    kind: str
    bits: int
    signed: bool
    digits: int
    numpy: str
    code: int | None = None
    suffix: str = ""

    @property
    def bytes(self) -> int:
        """Size of one element in memory."""
        return max(8, self.bits) // 8


DTYPES = {
    row[0]: DTypeInfo(*row)
    for row in (
        ("f64", 7, "float64", "f64", "f64", "float", 64, True, 53, "float64", 0, "F64"),
        ("f32", 6, "float32", "f32", "f32", "float", 32, True, 24, "float32", 1, "F32"),
        ("f16", 5, "float16", "f16", "f16", "float", 16, True, 11, "float16", 2, "F16"),
        ("bf16", 15, "bfloat16", "bf16", "bf16", "float", 16, True, 8, "uint16", 3, "BF16"),
        ("i64", 4, "int64", "si64", "i64", "int", 64, True, 63, "int64", 4, "I64"),
        ("i32", 3, "int32", "si32", "i32", "int", 32, True, 31, "int32", 5, "I32"),
        ("i16", 2, "int16", "si16", "i16", "int", 16, True, 15, "int16", 6, "I16"),
        ("i8", 1, "int8", "si8", "i8", "int", 8, True, 7, "int8", 7, "I8"),
        ("u8", 0, "uint8", "ui8", "i8", "int", 8, False, 8, "uint8", 8, "U8"),
        ("u16", 27, "uint16", "ui16", "i16", "int", 16, False, 16, "uint16"),
        ("u32", 28, "uint32", "ui32", "i32", "int", 32, False, 32, "uint32"),
        ("u64", 29, "uint64", "ui64", "i64", "int", 64, False, 64, "uint64"),
        ("f8e5m2", 23, "float8_e5m2", "f8E5M2", "i8", "float8", 8, True, 3, "uint8"),
        ("f8e4m3fn", 24, "float8_e4m3fn", "f8E4M3FN", "i8", "float8", 8, True, 4, "uint8"),
        ("f8e5m2fnuz", 25, "float8_e5m2fnuz", "f8E5M2FNUZ", "i8", "float8", 8, True, 3, "uint8"),
        ("f8e4m3fnuz", 26, "float8_e4m3fnuz", "f8E4M3FNUZ", "i8", "float8", 8, True, 4, "uint8"),
        ("f8e8m0fnu", 44, "float8_e8m0fnu", "f8E8M0FNU", "i8", "float8", 8, True, 1, "uint8"),
        ("i1", 11, "bool", "i1", "i1", "bool", 1, False, 1, "bool", 9, "B1"),
        ("c32", 8, "complex32", "complex<f16>", "complex<f16>", "complex", 32, True, 11, "uint32"),
        (
            "c64",
            9,
            "complex64",
            "complex<f32>",
            "complex<f32>",
            "complex",
            64,
            True,
            24,
            "complex64",
        ),
        (
            "c128",
            10,
            "complex128",
            "complex<f64>",
            "complex<f64>",
            "complex",
            128,
            True,
            53,
            "complex128",
        ),
    )
}
"""All dtypes by token."""

MACHINE = tuple(
    sorted(
        (facts for facts in DTYPES.values() if facts.code is not None),
        key=lambda facts: facts.code or 0,
    )
)
"""The machine's element types, by `code`."""

FLOATS = ("f32", "f64", "f16", "bf16")
HALVES = ("f16", "bf16")
INTS = ("i64", "i32", "i16", "i8", "u8")
BOOL = ("i1",)
COMPLEX = ("c32", "c64", "c128")
NUMBERS = FLOATS + INTS
ALL = NUMBERS + BOOL
PART = {"c32": "f16", "c64": "f32", "c128": "f64"}
"""Dtype of the real and imaginary parts of a complex dtype."""
STORED = (*ALL, "u16", "u32", "u64", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0fnu")
"""Dtypes that can be moved and converted; arithmetic supports only ALL."""

_BY_NUMBER = {facts.number: token for token, facts in DTYPES.items()}
_MEMORY = {facts.builtin: token for token, facts in reversed(DTYPES.items())} | {"i8": "u8"}
_RANK = {"bool": 0, "int": 1, "float": 2, "complex": 3}


def info(token: str) -> DTypeInfo:
    """Return the facts of a dtype.

    Raises:
        KeyError: There is no such dtype; the message lists all tokens.
    """
    try:
        return DTYPES[token]
    except KeyError:
        raise KeyError(f"unknown dtype {token!r}; the dtypes are {' '.join(DTYPES)}") from None


def by_number(number: int) -> str:
    """Return the token of a PyTorch ``ScalarType`` number."""
    try:
        return _BY_NUMBER[number]
    except KeyError:
        raise KeyError(f"no dtype has PyTorch's ScalarType number {number}") from None


def memory(token: str) -> str:
    """Return the machine's element type that holds a dtype's bits.

    It is the dtype itself, or the integer type that it is stored as.
    """
    return token if token in ALL else _MEMORY[info(token).builtin]


def promote(a: str, b: str) -> str:
    """Return the smallest dtype that holds both, as ``torch.promote_types``."""
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
    """Return the common dtype of operands, as ``torch.result_type``.

    Args:
        operands: (dtype, category) pairs. Categories, strongest first: ``tensor`` (one or more
            dimensions), ``scalar`` (0-dim tensor), ``number`` (Python number). A weaker category
            only raises the kind of the result, never its width. A Python float with integers gives
            f32, PyTorch's default dtype.
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
    """Return the dtype of elementwise arithmetic: f32 for the half types, else `token`."""
    return "f32" if token in HALVES else token
