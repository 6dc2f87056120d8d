"""Instruction selection for map bodies: nodes of `arith`, `math`, `ftm` become map operations.

Design decisions:
- A float product with one user, added to an operand that is no product, becomes one ``VFMA`` (F64
  and F32). It rounds once instead of twice, well within the tolerance of a float sum. ``a*b - a*b``
  is not contracted, so it stays exactly 0.
- Unsigned operations on types other than u8 are expanded, because the machine's integers are
  signed.
- ``math.round`` rounds halves away from zero, but the machine rounds them to even, so it is
  expanded.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

from ftm_backend.ir.asm import program as p
from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.kernel_tree import MapOperand
from ftm_backend.ir.tile.map_body_builder import BodyWriter, suffix
from ftm_backend.ir.tile.map_conversion_selection import CONVERSIONS, convert, extend_unsigned
from ftm_backend.target.element_types import BY_SUFFIX
from ftm_backend.target.instruction_table import STRIPS

Rule = Callable[[BodyWriter, Node], MapOperand]

_NAMES = {element: row.name for row in STRIPS for element in row.elements}
"""Element operation -> its map operation, from the instruction table; the rest has rules below."""
_BOOLEAN = {
    "arith.addi": "VXOR",
    "arith.subi": "VXOR",
    "arith.muli": "VAND",
    "arith.maxsi": "VAND",
    "arith.minsi": "VOR",
    "arith.maxui": "VOR",
    "arith.minui": "VAND",
}
"""Integer operations on i1, whose true reads as -1 when signed."""

_CMPF = {  # predicate -> (operation, negate), or two operations combined
    1: ("EQ", False),
    2: ("GT", False),
    3: ("GE", False),
    4: ("LT", False),
    5: ("LE", False),
    9: ("LE", True),
    10: ("LT", True),
    11: ("GE", True),
    12: ("GT", True),
    13: ("NE", False),
}
_CMPI = ("EQ", "NE", "LT", "LE", "GT", "GE", "LT", "LE", "GT", "GE")


def _type(node: Node) -> str:
    return suffix(node.dtype)


def _operands(w: BodyWriter, node: Node) -> list[MapOperand]:
    return [w.operand(value) for value in node.operands]


def _named(w: BodyWriter, node: Node) -> MapOperand:
    kind = _type(node)
    name = _NAMES[node.op]
    if kind == "B1":
        name = _BOOLEAN.get(node.op, name)
    return w.emit(f"{name}.{kind}", *_operands(w, node))


# --- float sums, fused with a product where that is exact enough
# ---------------------------------------


def _take_product(w: BodyWriter, value: Node, kind: str) -> list[MapOperand] | None:
    """Remove the product ``value`` and return its factors, if it has no other user."""
    if kind not in ("F64", "F32") or w.uses.get(id(value), 0) != 1:
        return None
    return w.take(w.operand(value), f"VMUL.{kind}")


def _is_product(value: Node) -> bool:
    return value.op == "arith.mulf"


def _addf(w: BodyWriter, node: Node) -> MapOperand:
    kind = _type(node)
    a, b = node.operands
    for value, other in ((a, b), (b, a)):
        if _is_product(value) and not _is_product(other):
            addend = w.operand(other)
            factors = _take_product(w, value, kind)
            if factors:
                return w.emit(f"VFMA.{kind}", *factors, addend)
    return w.emit(f"VADD.{kind}", w.operand(a), w.operand(b))


def _negated(operand: MapOperand) -> MapOperand | None:
    """Return ``-operand`` if it is a constant and a number."""
    if not isinstance(operand, p.Immediate) or operand == p.Immediate(nan):
        return None
    return p.Immediate(-operand.value)


def _subf(w: BodyWriter, node: Node) -> MapOperand:
    kind = _type(node)
    a, b = node.operands
    if _is_product(a) and not _is_product(b):
        addend = _negated(w.operand(b))
        factors = _take_product(w, a, kind) if addend else None
        if addend and factors:
            return w.emit(f"VFMA.{kind}", *factors, addend)
    return w.emit(f"VSUB.{kind}", w.operand(a), w.operand(b))


def _divf(w: BodyWriter, node: Node) -> MapOperand:
    kind = _type(node)
    a, b = _operands(w, node)
    if a == p.Immediate(1.0):
        return w.emit(f"VRCP.{kind}", b)
    return w.emit(f"VDIV.{kind}", a, b)


def _round(w: BodyWriter, node: Node) -> MapOperand:
    kind, x = _type(node), w.operand(node.operands[0])
    whole = w.emit(f"VTRUNC.{kind}", x)
    fraction = w.emit(f"VABS.{kind}", w.emit(f"VSUB.{kind}", x, whole))
    away = w.emit(f"VADD.{kind}", whole, w.emit(f"VCOPYSIGN.{kind}", 1.0, x))
    return w.emit(f"VSEL.{kind}", w.emit(f"VCMPGE.{kind}", fraction, 0.5), away, whole)


def _fpowi(w: BodyWriter, node: Node) -> MapOperand:
    kind, exponent = _type(node), node.operands[1]
    power = convert(w, w.operand(exponent), suffix(exponent.dtype), kind)
    return w.emit(f"VPOW.{kind}", w.operand(node.operands[0]), power)


def _classify(w: BodyWriter, node: Node) -> MapOperand:
    kind, x = suffix(node.operands[0].dtype), w.operand(node.operands[0])
    if node.op == "math.isnan":
        return w.emit(f"VCMPNE.{kind}", x, x)
    relation = "EQ" if node.op == "math.isinf" else "LT"
    return w.emit(f"VCMP{relation}.{kind}", w.emit(f"VABS.{kind}", x), inf)


# --- comparison and selection
# ---------------------------------------------------------------------------


def _cmpf(w: BodyWriter, node: Node) -> MapOperand:
    kind = suffix(node.operands[0].dtype)
    predicate = node.payload
    if predicate in (0, 15):
        return w.immediate(predicate == 15, "B1")
    a, b = _operands(w, node)
    if predicate in _CMPF:
        relation, negate = _CMPF[predicate]
        result = w.emit(f"VCMP{relation}.{kind}", a, b)
        return w.emit("VNOT.B1", result) if negate else result
    if predicate in (6, 8):  # one, and its opposite ueq
        result = w.emit("VOR.B1", w.emit(f"VCMPLT.{kind}", a, b), w.emit(f"VCMPGT.{kind}", a, b))
        return w.emit("VNOT.B1", result) if predicate == 8 else result
    relation, join = ("EQ", "VAND.B1") if predicate == 7 else ("NE", "VOR.B1")  # ord, uno
    return w.emit(
        join, w.emit(f"VCMP{relation}.{kind}", a, a), w.emit(f"VCMP{relation}.{kind}", b, b)
    )


def _unsigned(w: BodyWriter, operand: MapOperand, kind: str) -> tuple[str, MapOperand]:
    """Return a type and an operand whose signed order is the unsigned order of ``operand``."""
    if kind == "B1":
        return kind, operand
    if kind == "I8":
        return "U8", w.emit("VBITC.U8.I8", operand)
    return kind, w.emit(f"VXOR.{kind}", operand, -(2 ** (BY_SUFFIX[kind].bits - 1)))


def _cmpi(w: BodyWriter, node: Node) -> MapOperand:
    kind = suffix(node.operands[0].dtype)
    predicate = node.payload
    a, b = _operands(w, node)
    if kind == "B1" and 2 <= predicate <= 5:
        a, b = b, a
    if predicate >= 6:
        (_, a), (kind, b) = _unsigned(w, a, kind), _unsigned(w, b, kind)
    return w.emit(f"VCMP{_CMPI[predicate]}.{kind}", a, b)


def _min_max_unsigned(w: BodyWriter, node: Node) -> MapOperand:
    kind = _type(node)
    a, b = _operands(w, node)
    if kind == "B1":
        return w.emit(f"{_BOOLEAN[node.op]}.B1", a, b)
    (_, x), (compared, y) = _unsigned(w, a, kind), _unsigned(w, b, kind)
    relation = "GE" if node.op == "arith.maxui" else "LE"
    return w.emit(f"VSEL.{kind}", w.emit(f"VCMP{relation}.{compared}", x, y), a, b)


# --- integer division
# -----------------------------------------------------------------------------------


def _rounded_division(w: BodyWriter, node: Node) -> MapOperand:
    """Write ``arith.floordivsi`` or ``arith.ceildivsi``: correct the truncated quotient by 1."""
    kind = _type(node)
    a, b = _operands(w, node)
    quotient = w.emit(f"VDIV.{kind}", a, b)
    remainder = w.emit(f"VREM.{kind}", a, b)
    inexact = w.emit(f"VCMPNE.{kind}", remainder, 0)
    signs = w.emit(f"VCMPLT.{kind}", w.emit(f"VXOR.{kind}", a, b), 0)
    down = node.op == "arith.floordivsi"
    must_correct = w.emit("VAND.B1", inexact, signs if down else w.emit("VNOT.B1", signs))
    corrected = w.emit(f"V{'SUB' if down else 'ADD'}.{kind}", quotient, 1)
    return w.emit(f"VSEL.{kind}", must_correct, corrected, quotient)


def _divide_unsigned(w: BodyWriter, node: Node) -> MapOperand:
    """Write ``arith.divui`` or ``arith.remui``."""
    kind = _type(node)
    a, b = _operands(w, node)
    name = "VDIV" if node.op == "arith.divui" else "VREM"
    if kind != "I64":
        wide = "U8" if kind == "I8" else "I64"
        x, y = (extend_unsigned(w, operand, kind, wide) for operand in (a, b))
        return convert(w, w.emit(f"{name}.{wide}", x, y), wide, kind)
    # a / 2 is not negative: divide that, double the quotient, and correct it by at most 1. A
    # divisor of 2^63 or more, which is negative as a signed number, divides a at most once.
    half = w.emit("VDIV.I64", w.emit("VSHRU.I64", a, 1), b)
    estimate = w.emit("VSHL.I64", half, 1)
    remainder = w.emit("VSUB.I64", a, w.emit("VMUL.I64", estimate, b))
    quotient = w.emit("VSEL.I64", w.emit("VCMPLT.I64", b, 0), 0, estimate)
    remainder = w.emit("VSEL.I64", w.emit("VCMPLT.I64", b, 0), a, remainder)
    (_, x), (_, y) = _unsigned(w, remainder, "I64"), _unsigned(w, b, "I64")
    once_more = w.emit("VCMPGE.I64", x, y)
    if name == "VDIV":
        return w.emit("VSEL.I64", once_more, w.emit("VADD.I64", quotient, 1), quotient)
    return w.emit("VSEL.I64", once_more, w.emit("VSUB.I64", remainder, b), remainder)


# --- leaves
# ---------------------------------------------------------------------------------------------


def _constant(w: BodyWriter, node: Node) -> MapOperand:
    return w.immediate(node.payload, _type(node))


def _scalar(w: BodyWriter, node: Node) -> MapOperand:
    return p.SymbolName(w.scalars.get(node.payload, node.payload))


def _position(w: BodyWriter, node: Node) -> MapOperand:
    return w.emit("VIDX", *(e if e.terms else p.Immediate(e.const) for e in node.payload))


def _gather(w: BodyWriter, node: Node) -> MapOperand:
    (index,) = node.operands
    position = convert(w, w.operand(index), suffix(index.dtype), "I64")
    return w.emit(f"VGA.{_type(node)}", p.SlotReference(node.payload.symbol), position)


def _philox(w: BodyWriter, node: Node) -> MapOperand:
    return w.emit("VPHILOX", *_operands(w, node))


RULES: dict[str, Rule] = {
    **dict.fromkeys(_NAMES, _named),
    "arith.addf": _addf,
    "arith.subf": _subf,
    "arith.divf": _divf,
    "math.round": _round,
    "math.fpowi": _fpowi,
    "math.isnan": _classify,
    "math.isinf": _classify,
    "math.isfinite": _classify,
    "arith.cmpf": _cmpf,
    "arith.cmpi": _cmpi,
    "arith.maxui": _min_max_unsigned,
    "arith.minui": _min_max_unsigned,
    "arith.floordivsi": _rounded_division,
    "arith.ceildivsi": _rounded_division,
    "arith.divui": _divide_unsigned,
    "arith.remui": _divide_unsigned,
    **CONVERSIONS,
    "constant": _constant,
    "scalar": _scalar,
    "position": _position,
    "gather": _gather,
    "ftm.philox": _philox,
}
