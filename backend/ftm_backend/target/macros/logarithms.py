"""Expansions of logarithms, inverse hyperbolic functions, powers and the cube root.

x = m 2^e with m from sqrt(1/2) to sqrt(2), and log m = 2 atanh(s) with s = (m - 1) / (m + 1).
"""

from __future__ import annotations

from math import inf, log, nan

from ftm_backend.target.macros import polynomial_coefficients
from ftm_backend.target.macros.division import inverse, quotient, square_root
from ftm_backend.target.macros.exponentials import LN2, exponential
from ftm_backend.target.macros.macro_builder import FORMATS, MacroBuilder, MacroValue

_ROOT_HALF = {"F32": 0x3F3504F3, "F64": 0x3FE6A09E667F3BCD}
"""The bits of sqrt(1/2)."""
_LARGE = {"F32": 2.0**14, "F64": 2.0**28}
"""Above this, x^2 + 1 rounds to x^2."""


def split(b: MacroBuilder, x: MacroValue) -> tuple[MacroValue, MacroValue]:
    """Return m and e of x > 0, subnormals included; e as a float."""
    form = FORMATS[x.type]
    small = b.less(x, form.least_normal)
    normal = b.select(small, b.mul(x, 2.0**form.digits), x)
    raw = b.bits(normal, form.integer)
    count = b.shift_right(b.sub(raw, _ROOT_HALF[x.type]), form.stored)
    m = b.bits(b.sub(raw, b.shift_left(count, form.stored)), x.type)
    exponent = b.convert(count, x.type)
    return m, b.select(small, b.sub(exponent, float(form.digits)), exponent)


def _series(b: MacroBuilder, s: MacroValue) -> MacroValue:
    """Compute log((1 + s) / (1 - s)) - 2 s."""
    square = b.mul(s, s)
    return b.mul(b.mul(square, b.polynomial(square, polynomial_coefficients.LOG[s.type])), s)


def _of_mantissa(b: MacroBuilder, m: MacroValue) -> MacroValue:
    s = quotient(b, b.sub(m, 1.0), b.add(m, 1.0))
    return b.fma(s, 2.0, _series(b, s))


def _edges(b: MacroBuilder, x: MacroValue, y: MacroValue) -> MacroValue:
    """Replace y by the special values of a logarithm at 0, negative numbers, infinity and NaN."""
    y = b.select(b.equal(x, 0.0), -inf, y)
    y = b.select(b.less(x, 0.0), nan, y)
    return b.select(b.less(x, inf), y, x)


def logarithm(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VLOG."""
    m, e = split(b, x)
    high, low = LN2[x.type]
    return _edges(b, x, b.fma(e, high, b.fma(e, low, _of_mantissa(b, m))))


def _to_base(b: MacroBuilder, x: MacroValue, base: float) -> MacroValue:
    m, e = split(b, x)
    return _edges(b, x, b.fma(e, log(2, base), b.mul(_of_mantissa(b, m), 1 / log(base))))


def logarithm_2(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VLOG2."""
    return _to_base(b, x, 2.0)


def logarithm_10(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VLOG10."""
    return _to_base(b, x, 10.0)


def logarithm_1p(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VLOG1P: log(u) of u = 1 + x as rounded, plus the rounding error divided by u."""
    u = b.add(x, 1.0)
    m, e = split(b, u)
    high, low = LN2[x.type]
    lost = b.mul(b.sub(x, b.sub(u, 1.0)), inverse(b, u))
    y = b.fma(e, high, b.add(b.fma(e, low, lost), _of_mantissa(b, m)))
    y = b.select(b.equal(x, 0.0), x, y)
    return _edges(b, u, y)


def area_tangent(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VATANH: log1p(2 |x| / (1 - |x|)) / 2."""
    a = b.magnitude(x)
    rest = b.sub(1.0, a)
    ratio = quotient(b, b.add(a, a), rest)
    ratio = b.select(b.equal(a, 1.0), inf, ratio)
    return b.with_sign(b.mul(logarithm_1p(b, ratio), 0.5), x)


def area_sine(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VASINH: log1p(a + a^2 / (1 + sqrt(a^2 + 1))), and log(2 a) for large a."""
    a = b.magnitude(x)
    large = b.less(_LARGE[x.type], a)
    near = b.select(large, 1.0, a)
    square = b.mul(near, near)
    root = square_root(b, b.add(square, 1.0))
    small = b.add(near, quotient(b, square, b.add(root, 1.0)))
    return b.with_sign(_of_small_or_large(b, a, large, small), x)


def area_cosine(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VACOSH: log1p(t + sqrt(2 t + t^2)) with t = x - 1, and log(2 x) for large x."""
    large = b.less(_LARGE[x.type], x)
    t = b.sub(b.select(large, 2.0, x), 1.0)
    small = b.add(t, square_root(b, b.fma(t, t, b.add(t, t))))
    result = _of_small_or_large(b, x, large, small)
    return b.select(b.less(x, 1.0), nan, result)


def _of_small_or_large(
    b: MacroBuilder, a: MacroValue, large: MacroValue, small: MacroValue
) -> MacroValue:
    """Compute log1p(small), or log(2 a) if ``large``, with a single logarithm."""
    y = logarithm_1p(b, b.select(large, b.sub(a, 1.0), small))
    return b.select(large, b.add(y, log(2)), y)


def cube_root(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VCBRT: Newton's method for a^(-1/3) without division, from a third of the exponent's bits."""
    form = FORMATS[x.type]
    a = b.magnitude(x)
    small = b.less(a, form.least_normal)
    digits = 3 * (form.digits // 3 + 1)
    scaled = b.select(small, b.mul(a, 2.0**digits), a)
    third = b.convert(b.mul(b.convert(b.bits(scaled, form.integer), x.type), -1 / 3), form.integer)
    # 4/3 of the bits of 1.0, minus a term that balances the error of the linear estimate.
    y = b.bits(b.add(third, int((form.bias * 4 / 3 - 0.0985) * 2**form.stored)), x.type)
    for _ in range({"F32": 4, "F64": 5}[x.type]):
        cube = b.mul(b.mul(y, y), y)
        y = b.fma(y, b.mul(b.fma(b.mul(scaled, -1.0), cube, 1.0), 1 / 3), y)
    square = b.mul(y, y)
    root = b.mul(scaled, square)
    error = b.fma(b.mul(root, root), b.mul(root, -1.0), scaled)
    root = b.fma(b.mul(error, 1 / 3), square, root)
    root = b.select(small, b.mul(root, 2.0 ** (-digits // 3)), root)
    root = b.select(b.equal(b.add(a, a), a), a, root)
    return b.with_sign(root, x)


def power(b: MacroBuilder, x: MacroValue, y: MacroValue) -> MacroValue:
    """VPOW: e^(y log |x|) with a double-length logarithm, then the special cases of IEEE 754.

    F32 is computed in F64.
    """
    wide = [b.convert(v, "F64") for v in (x, y)]
    result = _power_of_magnitude(b, b.magnitude(wide[0]), wide[1])
    return b.convert(_power_cases(b, wide[0], wide[1], result), x.type)


def _power_of_magnitude(b: MacroBuilder, a: MacroValue, y: MacroValue) -> MacroValue:
    m, e = split(b, a)
    below, above = b.sub(m, 1.0), b.add(m, 1.0)
    inverted = inverse(b, above)
    s = b.mul(below, inverted)
    lost = b.sub(m, b.sub(above, 1.0))
    minus = b.mul(s, -1.0)
    rest = b.mul(b.fma(minus, lost, b.fma(minus, above, below)), inverted)
    high, low = LN2["F64"]
    whole, double = b.mul(e, high), b.add(s, s)
    head = b.add(whole, double)
    tail = b.add(b.sub(whole, head), double)
    tail = b.add(tail, b.fma(rest, 2.0, b.fma(e, low, _series(b, s))))
    edged = b.select(b.equal(a, 0.0), -inf, b.select(b.less(a, inf), head, a))
    finite = b.equal(edged, head)
    product = b.mul(edged, y)
    error = b.fma(y, tail, b.fma(y, head, b.mul(product, -1.0)))
    return exponential(b, product, b.select(finite, error, 0.0))


def _power_cases(b: MacroBuilder, x: MacroValue, y: MacroValue, result: MacroValue) -> MacroValue:
    form = FORMATS["F64"]
    a, size = b.magnitude(x), b.magnitude(y)
    huge = b.less_equal(2.0**form.digits, size)
    rest = b.select(huge, 0.0, size)
    count = b.convert(rest, form.integer)
    integer = b.or_(huge, b.equal(b.convert(count, "F64"), rest))
    odd = b.and_(b.and_(integer, b.not_(huge)), b.not_equal(b.and_(count, 1), 0))
    negative = b.less(b.bits(x, form.integer), 0)
    result = b.select(b.and_(negative, odd), b.mul(result, -1.0), result)
    finite = b.and_(b.less(a, inf), b.less(0.0, a))
    result = b.select(b.and_(b.and_(negative, finite), b.not_(integer)), nan, result)
    number = b.and_(b.equal(x, x), b.equal(y, y))
    result = b.select(number, result, nan)
    result = b.select(b.and_(b.equal(a, 1.0), b.equal(size, inf)), 1.0, result)
    return b.select(b.or_(b.equal(y, 0.0), b.equal(x, 1.0)), 1.0, result)
