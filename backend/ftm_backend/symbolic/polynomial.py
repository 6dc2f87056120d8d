"""Polynomials over symbols with integer coefficients."""

from __future__ import annotations

Polynomial = dict[tuple[str, ...], int]
"""Coefficients by monomial; a monomial is the sorted tuple of its atoms.

An atom is a symbol, or the text of a quotient or remainder.
"""


def add(left: Polynomial, right: Polynomial, sign: int) -> Polynomial:
    """Return ``left + sign * right``; coefficients may be zero."""
    total = dict(left)
    for monomial, factor in right.items():
        total[monomial] = total.get(monomial, 0) + sign * factor
    return total


def leads_negative(polynomial: Polynomial) -> bool:
    """Whether the leading coefficient (of the highest degree) is negative."""
    leading = max(polynomial, key=lambda m: (len(m), m), default=())
    return bool(leading) and polynomial[leading] < 0


def parts(top: Polynomial, by: int) -> tuple[Polynomial, Polynomial]:
    """Split `top` into a multiple of `by` and a remainder with coefficients in ``[0, by)``."""
    return {m: c // by for m, c in top.items() if c // by}, {
        m: c % by for m, c in top.items() if c % by
    }


def exact(top: Polynomial, bottom: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Divide `top` by `bottom` where it divides exactly.

    Division by a monomial is term by term. By another polynomial, only an exact multiple divides.

    Returns:
        Quotient and remainder.
    """
    if len(bottom) == 1:
        ((divisor, factor),) = bottom.items()
        quotient: Polynomial = {}
        remainder: Polynomial = {}
        for monomial, c in top.items():
            remaining = list(monomial)
            if c % factor == 0 and all(_remove(remaining, atom) for atom in divisor):
                quotient[tuple(remaining)] = c // factor
            else:
                remainder[monomial] = c
        return quotient, remainder
    leading = max(bottom, key=lambda m: (len(m), m))
    for monomial, c in top.items():
        remaining = list(monomial)
        if c % bottom[leading] == 0 and all(_remove(remaining, atom) for atom in leading):
            multiple = {
                tuple(sorted((*remaining, *m))): f * (c // bottom[leading])
                for m, f in bottom.items()
            }
            if all(top.get(m) == f for m, f in multiple.items()) and len(multiple) == len(top):
                return {tuple(remaining): c // bottom[leading]}, {}
    return {}, top


def without(monomial: tuple[str, ...], atom: str) -> tuple[str, ...]:
    """Divide a monomial by one of its atoms."""
    remaining = list(monomial)
    remaining.remove(atom)
    return tuple(remaining)


def _remove(atoms: list[str], atom: str) -> bool:
    """Remove an atom from a list; return whether it was there."""
    if atom not in atoms:
        return False
    atoms.remove(atom)
    return True


def spell(polynomial: Polynomial) -> str:
    """Return the canonical text of a polynomial."""
    parts = []
    for monomial, factor in sorted(polynomial.items(), key=lambda item: (-len(item[0]), item[0])):
        sign = "-" if factor < 0 else "+"
        words = [*([str(abs(factor))] if abs(factor) != 1 or not monomial else []), *monomial]
        parts.append(sign + "*".join(words))
    text = "".join(parts) or "0"
    return text.removeprefix("+")


def grouped(text: str) -> str:
    """Parenthesize a text if needed for use as an operand."""
    return (
        text
        if text.isalnum() or (text[0] == "(" and text.count("(") == 1 and text[-1] == ")")
        else f"({text})"
    )
