"""Expansions of quotients, remainders and roots: seeds refined by Newton's method."""

from __future__ import annotations

from math import inf, nan

from ftm_backend.target.element_types import BY_SUFFIX
from ftm_backend.target.macros.macro_builder import FORMATS, MacroBuilder, MacroValue, Source

_STEPS = {"F32": 2, "F64": 3}
"""Newton steps from a seed of 8 bits to all digits; each step doubles the correct bits."""


def inverse(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """Compute 1 / x for a normal x whose reciprocal is normal.

    Rounded to nearest, except for x just below a power of two (one ulp less).
    """
    y = b.seed("VFRCP", x)
    negated = _negate(b, x)
    for _ in range(_STEPS[x.type]):
        y = b.fma(y, b.fma(negated, y, 1.0), y)
    return y


def _negate(b: MacroBuilder, x: MacroValue) -> MacroValue:
    form = FORMATS[x.type]
    return b.bits(b.xor(b.bits(x, form.integer), form.sign), x.type)


def quotient(b: MacroBuilder, n: MacroValue, d: MacroValue) -> MacroValue:
    """Compute n / d, rounded as `inverse`, if the quotient and 1 / d are normal numbers."""
    y = inverse(b, d)
    q = b.mul(n, y)
    return b.fma(b.fma(_negate(b, d), q, n), y, q)


def divide(b: MacroBuilder, n: MacroValue, d: MacroValue) -> MacroValue:
    """VDIV of floats and of integers."""
    return _divide_floats(b, n, d) if n.type in FORMATS else _divide_integers(b, n, d)


def _divide_floats(b: MacroBuilder, n: MacroValue, d: MacroValue) -> MacroValue:
    """Divide floats.

    Both operands are scaled by the power of two that brings d near 1, so that no intermediate
    overflows. If that gives NaN, an operand or the quotient is 0, infinite or NaN, and n times the
    seed of 1 / d has the right special value.
    """
    scale = _scale(b, d)
    n_scaled, d_scaled = b.mul(n, scale), b.mul(d, scale)
    y = inverse(b, d_scaled)
    q = b.mul(n_scaled, y)
    refined = b.fma(b.fma(_negate(b, d_scaled), q, n_scaled), y, q)
    refined = b.select(b.equal(q, 0.0), q, refined)
    special = b.select(b.equal(q, q), q, b.mul(n, b.seed("VFRCP", d)))
    return b.select(b.equal(refined, refined), refined, special)


def _scale(b: MacroBuilder, d: MacroValue) -> MacroValue:
    """Return the power of two that brings d to [1/2, 1), but at least the least normal number."""
    form = FORMATS[d.type]
    exponent = b.and_(b.bits(d, form.integer), form.exponent_mask)
    field = b.sub((2 * form.bias - 1) << form.stored, exponent)
    least = 1 << form.stored
    return b.bits(b.select(b.less(field, least), least, field), d.type)


def reciprocal(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VRCP."""
    scale = _scale(b, x)
    y = inverse(b, b.mul(x, scale))
    result = b.mul(y, scale)
    return b.select(b.equal(result, result), result, b.seed("VFRCP", x))


def square_root(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VSQRT."""
    form = FORMATS[x.type]
    digits = 2 * (form.digits // 2 + 1)
    small = b.less(x, form.least_normal)
    scaled = b.select(small, b.mul(x, 2.0**digits), x)
    y = b.seed("VFRSQ", scaled)
    root, half = b.mul(scaled, y), b.mul(y, 0.5)
    for _ in range(_STEPS[x.type]):
        error = b.fma(_negate(b, root), half, 0.5)
        root, half = b.fma(root, error, root), b.fma(half, error, half)
    root = b.fma(b.fma(_negate(b, root), root, scaled), half, root)
    root = b.select(small, b.mul(root, 2.0 ** (-digits // 2)), root)
    itself = b.or_(b.equal(x, 0.0), b.equal(x, inf))
    return b.select(itself, x, root)


def reciprocal_root(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VRSQRT."""
    form = FORMATS[x.type]
    digits = 2 * (form.digits // 2 + 1)
    small = b.less(x, form.least_normal)
    scaled = b.select(small, b.mul(x, 2.0**digits), x)
    y = b.seed("VFRSQ", scaled)
    seeded = y
    half = b.mul(scaled, -0.5)
    for _ in range(_STEPS[x.type]):
        y = b.fma(y, b.fma(b.mul(half, y), y, 0.5), y)
    y = b.select(b.equal(y, y), y, seeded)
    return b.select(small, b.mul(y, 2.0 ** (digits // 2)), y)


def remainder(b: MacroBuilder, n: MacroValue, d: MacroValue) -> MacroValue:
    """VREM of floats and of integers."""
    if n.type not in FORMATS:
        return b.select(b.equal(d, 0), 0, b.sub(n, b.mul(d, _divide_integers(b, n, d))))
    return _remainder_floats(b, n, d)


def _remainder_floats(b: MacroBuilder, n: MacroValue, d: MacroValue) -> MacroValue:
    """Compute the remainder by long division of the magnitudes in F64.

    A step subtracts the shifted multiple of d that covers the upper ``step`` digits of the
    quotient. One step suffices if the quotient has no more digits.
    """
    form = FORMATS["F64"]
    step = form.digits - 3
    a, c = (b.magnitude(b.convert(v, "F64")) for v in (n, d))
    small = b.less(c, form.least_normal)
    divisor = b.select(small, b.mul(c, 2.0**form.digits), c)
    below = b.choose(small, form.digits, 0, form.integer)
    place = b.sub(b.shift_right(b.bits(divisor, form.integer), form.stored), below)
    for _ in b.steps((2 * form.bias + form.digits) // (step - 1) + 1):
        gap = b.sub(b.shift_right(b.bits(a, form.integer), form.stored), place)
        raised = b.sub(gap, step)
        raised = b.sub(b.select(b.less(raised, 0), 0, raised), below)
        shifted = _shifted(b, divisor, raised)
        # The quotient of tiny numbers is that of both scaled up.
        tiny = b.less(shifted, 2.0**-900)
        grown = [b.select(tiny, b.mul(v, 2.0**200), v) for v in (a, shifted)]
        near = quotient(b, grown[0], grown[1])
        whole = b.sub(b.add(near, form.rounder), form.rounder)
        left = b.fma(_negate(b, whole), shifted, a)
        left = b.select(b.less(left, 0.0), b.add(left, shifted), left)
        a = b.select(b.less(a, c), a, left)
    result = b.with_sign(b.convert(a, n.type), n)
    size = b.magnitude(d)
    result = b.select(b.equal(size, inf), n, result)
    valid = b.and_(b.less(b.magnitude(n), inf), b.less(0.0, size))
    return b.select(valid, result, nan)


def _shifted(b: MacroBuilder, x: MacroValue, count: MacroValue) -> MacroValue:
    """Compute x 2^count in two steps, since 2^count itself may overflow."""
    half = b.shift_right(count, 1)
    return b.mul(b.mul(x, b.power_of_two(half, x.type)), b.power_of_two(b.sub(count, half), x.type))


def _divide_integers(b: MacroBuilder, n: MacroValue, d: MacroValue) -> MacroValue:
    """Divide integers by floats of F64.

    Up to 32 bits the rounded quotient is exact. For 64 bits the quotient of the remainder is added
    twice, which leaves an error of at most 1.
    """
    narrow = BY_SUFFIX[n.type].bytes < 8
    divisor = b.convert(d, "F64")
    y = inverse(b, b.select(b.equal(divisor, 0.0), 1.0, divisor))
    if narrow:
        a = b.convert(n, "F64")
        q = b.mul(a, y)
        q = b.fma(b.fma(_negate(b, divisor), q, a), y, q)
        wide = b.convert(b.convert(q, "I64"), n.type)
        return b.select(b.equal(d, 0), 0, wide)
    total: Source = 0
    left = n
    for _ in range(2):
        part = b.convert(b.mul(b.convert(left, "F64"), y), "I64")
        left = b.sub(left, b.mul(part, d))
        total = b.add(total, part)
    assert isinstance(total, MacroValue)
    return _corrected(b, n, d, total, left)


def _corrected(
    b: MacroBuilder, n: MacroValue, d: MacroValue, q: MacroValue, left: MacroValue
) -> MacroValue:
    """Correct a quotient that is off by at most one, so that it rounds towards zero.

    ``left`` is the remainder: it must have the sign of n and be smaller than d.
    """
    towards = b.choose(b.less(b.xor(n, d), 0), -1, 1, n.type)
    opposite = b.and_(b.less(b.xor(left, n), 0), b.not_equal(left, 0))
    q = b.select(opposite, b.sub(q, towards), q)
    sized = b.select(b.less(left, 0), b.sub(0, left), left)
    size = b.select(b.less(d, 0), b.sub(0, d), d)
    # The most negative number is its own magnitude, which is right as an unsigned number.
    reached = b.less_equal(b.xor(size, -(1 << 63)), b.xor(sized, -(1 << 63)))
    q = b.select(b.and_(reached, b.not_(opposite)), b.add(q, towards), q)
    return b.select(b.equal(d, 0), 0, q)
