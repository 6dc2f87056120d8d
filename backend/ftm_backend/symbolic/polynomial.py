"""Polynomials over symbols, with integer coefficients."""

from __future__ import annotations

__all__ = ["Polynomial", "add", "exact", "grouped", "leads_negative", "parts", "spell", "without"]


Polynomial = dict[tuple[str, ...], int]
"""Monomials, each the sorted tuple of its atoms, and their coefficients. An atom is a symbol or a
quotient or remainder."""


def add(left: Polynomial, right: Polynomial, sign: int) -> Polynomial:
    """``left + sign * right``"""
    total = dict(left)
    for monomial, factor in right.items():
        total[monomial] = total.get(monomial, 0) + sign * factor
    return total


def leads_negative(polynomial: Polynomial) -> bool:
    """Whether the coefficient of its first term, of the highest degree, is negative."""
    leading = max(polynomial, key=lambda m: (len(m), m), default=())
    return bool(leading) and polynomial[leading] < 0


def parts(top: Polynomial, by: int) -> tuple[Polynomial, Polynomial]:
    """``top`` as a multiple of ``by`` and a rest with coefficients from 0 to ``by - 1``."""
    return {m: c // by for m, c in top.items() if c // by}, {
        m: c % by for m, c in top.items() if c % by
    }


def exact(top: Polynomial, bottom: Polynomial) -> tuple[Polynomial, Polynomial]:
    """``top`` as a multiple of ``bottom`` and a rest: by one monomial term by term, by others only
    multiples of all."""
    if len(bottom) == 1:
        ((divisor, factor),) = bottom.items()
        whole: Polynomial = {}
        rest: Polynomial = {}
        for monomial, c in top.items():
            left = list(monomial)
            if c % factor == 0 and all(_take(left, atom) for atom in divisor):
                whole[tuple(left)] = c // factor
            else:
                rest[monomial] = c
        return whole, rest
    leading = max(bottom, key=lambda m: (len(m), m))
    for monomial, c in top.items():
        left = list(monomial)
        if c % bottom[leading] == 0 and all(_take(left, atom) for atom in leading):
            multiple = {
                tuple(sorted((*left, *m))): f * (c // bottom[leading]) for m, f in bottom.items()
            }
            if all(top.get(m) == f for m, f in multiple.items()) and len(multiple) == len(top):
                return {tuple(left): c // bottom[leading]}, {}
    return {}, top


def without(monomial: tuple[str, ...], atom: str) -> tuple[str, ...]:
    """A monomial divided by one of its atoms."""
    left = list(monomial)
    left.remove(atom)
    return tuple(left)


def _take(atoms: list[str], atom: str) -> bool:
    if atom not in atoms:
        return False
    atoms.remove(atom)
    return True


def spell(polynomial: Polynomial) -> str:
    """The text of a polynomial, in an order that depends on nothing but itself."""
    parts = []
    for monomial, factor in sorted(polynomial.items(), key=lambda item: (-len(item[0]), item[0])):
        sign = "-" if factor < 0 else "+"
        words = [*([str(abs(factor))] if abs(factor) != 1 or not monomial else []), *monomial]
        parts.append(sign + "*".join(words))
    text = "".join(parts) or "0"
    return text.removeprefix("+")


def grouped(text: str) -> str:
    """A text as one operand of another."""
    return (
        text
        if text.isalnum() or (text[0] == "(" and text.count("(") == 1 and text[-1] == ")")
        else f"({text})"
    )
