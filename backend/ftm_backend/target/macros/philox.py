"""Philox4x32-10: ten rounds on four words of 32 bits, each in a lane of 64."""

from __future__ import annotations

from ftm_backend.target.macros.macro_builder import MacroBuilder, MacroValue

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


def _halves(b: MacroBuilder, x: MacroValue) -> tuple[MacroValue, MacroValue]:
    return b.both(x, _LOW), b.right_zeros(x, 32)


def philox(b: MacroBuilder, index: MacroValue, seed: MacroValue, offset: MacroValue) -> MacroValue:
    """VPHILOX."""
    x0, x1 = _halves(b, b.right_zeros(index, 2))
    x2, x3 = _halves(b, offset)
    k0, k1 = _halves(b, seed)
    for number in range(10):
        if number:
            k0, k1 = (b.both(b.add(k, step), _LOW) for k, step in zip((k0, k1), _WEYL, strict=True))
        p, q = b.mul(x0, _MULTIPLIERS[0]), b.mul(x2, _MULTIPLIERS[1])
        x0, x1, x2, x3 = (
            b.one_of(b.one_of(b.right_zeros(q, 32), x1), k0),
            b.both(q, _LOW),
            b.one_of(b.one_of(b.right_zeros(p, 32), x3), k1),
            b.both(p, _LOW),
        )
    low = b.equal(b.both(index, 1), 0)
    even, odd = b.select(low, x0, x1), b.select(low, x2, x3)
    return b.convert(b.select(b.equal(b.both(index, 2), 0), even, odd), "I32")
