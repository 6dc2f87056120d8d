"""Instruction selection for conversions of elements.

The machine's integers are signed (except u8), and its booleans are 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.ir.asm import program as p
from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.kernel_tree import MapOperand
from ftm_backend.ir.tile.map_body_builder import BodyWriter, suffix
from ftm_backend.target.element_types import BY_SUFFIX


def convert(w: BodyWriter, operand: MapOperand, source: str, target: str) -> MapOperand:
    """Write a ``VCVT``, or nothing between equal types."""
    return operand if source == target else w.emit(f"VCVT.{target}.{source}", operand)


def extend_unsigned(w: BodyWriter, operand: MapOperand, source: str, target: str) -> MapOperand:
    """Convert an operand, read as an unsigned number, to a wider integer type or U8."""
    if source == "B1":
        return convert(w, operand, source, target)
    if source == "I8":
        return convert(w, w.emit("VBITC.U8.I8", operand), "U8", target)
    return w.emit(
        f"VAND.{target}", convert(w, operand, source, target), 2 ** BY_SUFFIX[source].bits - 1
    )


def _types(node: Node) -> tuple[str, str]:
    return suffix(node.operands[0].dtype), suffix(node.dtype)


def _scalar_converts_implicitly(operand: MapOperand, source: str, target: str) -> bool:
    """Whether a program scalar needs no ``VCVT``.

    An operand of type F32 rounds the scalar, an integer operand truncates it.
    """
    return isinstance(operand, p.SymbolName) and (source, target) in (
        ("F64", "F32"),
        ("I64", "F32"),
        ("I64", "F64"),
        ("I64", "I32"),
    )


def _convert(w: BodyWriter, node: Node) -> MapOperand:
    source, target = _types(node)
    operand = w.operand(node.operands[0])
    if _scalar_converts_implicitly(operand, source, target):
        return operand
    return convert(w, operand, source, target)


def _signed_from_bool(w: BodyWriter, node: Node) -> MapOperand:
    """Write ``arith.extsi`` or ``arith.sitofp``; a boolean true becomes -1."""
    source, target = _types(node)
    if source != "B1":
        return _convert(w, node)
    return w.emit(f"VNEG.{target}", convert(w, w.operand(node.operands[0]), source, target))


def _extui(w: BodyWriter, node: Node) -> MapOperand:
    return extend_unsigned(w, w.operand(node.operands[0]), *_types(node))


def _trunci(w: BodyWriter, node: Node) -> MapOperand:
    source, target = _types(node)
    operand = w.operand(node.operands[0])
    if target == "B1":
        return w.emit(f"VCVT.B1.{source}", w.emit(f"VAND.{source}", operand, 1))
    return _convert(w, node)


def _uitofp(w: BodyWriter, node: Node) -> MapOperand:
    source, target = _types(node)
    operand = w.operand(node.operands[0])
    if source == "B1":
        return convert(w, operand, source, target)
    if source != "I64":
        wide = "U8" if source == "I8" else "I64"
        return convert(w, extend_unsigned(w, operand, source, wide), wide, target)
    # Negative as a signed number: convert half of it, with the lost bit kept for rounding, twice.
    half = w.emit("VOR.I64", w.emit("VSHRU.I64", operand, 1), w.emit("VAND.I64", operand, 1))
    twice = w.emit(f"VMUL.{target}", w.emit(f"VCVT.{target}.I64", half), 2.0)
    return w.emit(
        f"VSEL.{target}",
        w.emit("VCMPLT.I64", operand, 0),
        twice,
        w.emit(f"VCVT.{target}.I64", operand),
    )


def _fptoui(w: BodyWriter, node: Node) -> MapOperand:
    source, target = _types(node)
    wide = w.emit(f"VCVT.I64.{source}", w.operand(node.operands[0]))
    return convert(w, wide, "I64", target)


def _bitcast(w: BodyWriter, node: Node) -> MapOperand:
    source, target = _types(node)
    operand = w.operand(node.operands[0])
    return operand if source == target else w.emit(f"VBITC.{target}.{source}", operand)


CONVERSIONS: dict[str, Callable[[BodyWriter, Node], MapOperand]] = {
    "arith.extf": _convert,
    "arith.truncf": _convert,
    "arith.fptosi": _convert,
    "arith.extsi": _signed_from_bool,
    "arith.sitofp": _signed_from_bool,
    "arith.extui": _extui,
    "arith.trunci": _trunci,
    "arith.uitofp": _uitofp,
    "arith.fptoui": _fptoui,
    "arith.bitcast": _bitcast,
}
