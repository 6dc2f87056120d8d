"""Expansion of VPHILOX: ten rounds of Philox4x32 on four 32-bit words, each in a 64-bit lane."""

from __future__ import annotations

from ftm_backend.target.macros.macro_builder import MacroBuilder, MacroValue

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


def _halves(b: MacroBuilder, x: MacroValue) -> tuple[MacroValue, MacroValue]:
    return b.and_(x, _LOW), b.shift_right_logical(x, 32)


def philox(b: MacroBuilder, index: MacroValue, seed: MacroValue, offset: MacroValue) -> MacroValue:
    """VPHILOX."""
    x0, x1 = _halves(b, b.shift_right_logical(index, 2))
    x2, x3 = _halves(b, offset)
    k0, k1 = _halves(b, seed)
    for number in range(10):
        if number:
            k0, k1 = (b.and_(b.add(k, step), _LOW) for k, step in zip((k0, k1), _WEYL, strict=True))
        p, q = b.mul(x0, _MULTIPLIERS[0]), b.mul(x2, _MULTIPLIERS[1])
        x0, x1, x2, x3 = (
            b.xor(b.xor(b.shift_right_logical(q, 32), x1), k0),
            b.and_(q, _LOW),
            b.xor(b.xor(b.shift_right_logical(p, 32), x3), k1),
            b.and_(p, _LOW),
        )
    low = b.equal(b.and_(index, 1), 0)
    even, odd = b.select(low, x0, x1), b.select(low, x2, x3)
    return b.convert(b.select(b.equal(b.and_(index, 2), 0), even, odd), "I32")
