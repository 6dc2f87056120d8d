"""Op records of Bessel functions of orders 0 and 1.

A series near the origin and an integral of the decaying part far away give each function to double
precision. The compiled code evaluates Chebyshev fits of both (`frontend/chebyshev_fit.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

from ftm_backend.dtypes import ALL
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.chebyshev_fit import ChebyshevFit, integral
from ftm_backend.frontend.oplib.pointwise import pointwise
from ftm_backend.frontend.scalar_math import ScalarExpr

_TOLERANCE = {"f64": (1e-8, 1e-8), "f32": (2e-5, 5e-5), "f16": (4e-3, 1e-4), "bf16": (1.6e-2, 1e-3)}
"""In f64 PyTorch's own J and Y are off by up to 5e-9 at 8; the phase of a large f32 is what its
last bit leaves."""
_FAR = 8.0  # where the far form takes over; for K: 2
_EULER = Fraction("0.577215664901532860606512090082402431")


def _series(order: int, square: float | Fraction, sign: int, harmonic: bool = False) -> float:
    """Sum over k of (sign * square / 4)**k / (k! (k + order)!), exact.

    With ``harmonic``, each term times psi(k + 1) + psi(k + order + 1), psi the digamma function.
    """
    ratio = Fraction(square) * sign / 4
    term, total = Fraction(1), Fraction(0)
    low, high = -_EULER, order - _EULER  # psi(1), psi(order + 1)
    k = 0
    while abs(term) > Fraction(1, 10**22):
        total += term * (low + high) if harmonic else term
        k += 1
        term = Fraction(round(term * ratio / (k * (k + order)) * 10**40), 10**40)
        low += Fraction(1, k)
        high += Fraction(1, k + order)
    return float(total)


def _far(order: int, x: float, turn: complex) -> complex:
    """Integrate exp(-s**2) * s**(2 order) * (1 + turn s**2 / (2 x))**(order - 1/2) over s.

    The result is scaled to 1 at infinite x. With turn 1 it is K(x) / (sqrt(pi / (2 x)) * exp(-x)).
    With turn i it is P + iQ, the Hankel function divided by sqrt(2 / (pi x)) * exp(i (x - order *
    pi / 2 - pi / 4)).
    """

    def integrand(s: float) -> complex:
        return math.exp(-s * s) * s ** (2 * order) * (1 + turn * s * s / (2 * x)) ** (order - 0.5)

    return integral(integrand, 0.2, 6.4) / math.gamma(order + 0.5)


def _growth(order: int, x: float) -> float:
    """Return sqrt(x) * exp(-x) * I(x), with I the modified Bessel function of the first kind."""
    if x < 40:
        return _series(order, Fraction(x) ** 2, 1) * (x / 2) ** order * math.exp(-x) * math.sqrt(x)
    total, term, k = 0.0, 1.0, 0
    while abs(term) > 1e-18:
        total += term
        k += 1
        term *= -(4 * order - (2 * k - 1) ** 2) / (k * 8 * x)
    return total / math.sqrt(2 * math.pi)


def _orders(
    function: Callable[[int, float], float], low: float, high: float, terms: int
) -> list[ChebyshevFit]:
    """Fit a function of (order, variable) for orders 0 and 1."""
    return [ChebyshevFit(partial(function, order), low, high, terms) for order in (0, 1)]


_I_NEAR = _orders(lambda n, x: _series(n, Fraction(x) ** 2, 1) * math.exp(-x), 0, _FAR, 36)
_I_FAR = _orders(lambda n, t: _growth(n, _FAR / t), 1e-9, 1, 32)
_J_NEAR = _orders(lambda n, y: _series(n, y, -1), 0, _FAR * _FAR, 28)
_Y_NEAR = _orders(lambda n, y: _series(n, y, -1, True), 0, _FAR * _FAR, 28)
_P_FAR = _orders(lambda n, t: _far(n, _FAR / t, 1j).real, 1e-9, 1, 24)
_Q_FAR = _orders(lambda n, t: _far(n, _FAR / t, 1j).imag / t, 1e-6, 1, 24)
_I_SMALL = _orders(lambda n, y: _series(n, y, 1), 0, 4, 16)
_K_NEAR = _orders(lambda n, y: _series(n, y, 1, True), 0, 4, 16)
_K_FAR = _orders(lambda n, t: _far(n, 2 / t, 1).real, 1e-9, 1, 30)


def _log_half(x: ScalarExpr) -> ScalarExpr:
    """log(x / 2). Half of the smallest x is 0, so only large x are halved."""
    is_small = x < 1
    log = e.log(e.where(is_small, x, x * 0.5))
    return e.where(is_small, log - math.log(2), log)


def scaled_i(order: int, x: ScalarExpr) -> ScalarExpr:
    """Return exp(-|x|) * I(x)."""
    size = abs(x)
    near, far = e.minimum(size, _FAR), e.maximum(size, _FAR)
    small = _I_NEAR[order](near) * (near * 0.5 if order else 1)
    value = e.where(size <= _FAR, small, _I_FAR[order](far.const(_FAR) / far) / e.sqrt(far))
    value = e.where(size.eq(math.inf), 0, value)
    return e.copysign(value, x) if order else value


def first_kind(order: int, x: ScalarExpr) -> ScalarExpr:
    """Return J(x); NaN at infinity, as in PyTorch."""
    size = abs(x)
    near, far = e.minimum(size, _FAR), e.maximum(size, _FAR)
    small = _J_NEAR[order](near * near) * (near * 0.5 if order else 1)
    value = e.where(size <= _FAR, small, _wave(order, far, 0.0))
    return e.where(x < 0, -value, value) if order else value


def second_kind(order: int, x: ScalarExpr) -> ScalarExpr:
    """Return Y(x): -inf at 0, NaN for negative x and at infinity."""
    near, far = e.minimum(x, _FAR), e.maximum(x, _FAR)
    square = near * near
    scale = near * 0.5 if order else near.const(1)
    j = _J_NEAR[order](square) * scale
    # 2 log(x / 2) J less the series with digamma's numbers, over pi; order 1 has a pole as well.
    small = (j * _log_half(near) * 2 - _Y_NEAR[order](square) * scale) * (1 / math.pi)
    small = small - near.const(2 / math.pi) / near if order else small
    value = e.where(x <= _FAR, small, _wave(order, far, -math.pi / 2))
    return e.where(x < 0, math.nan, e.where(x.eq(0), -math.inf, value))


def _wave(order: int, x: ScalarExpr, turn: float) -> ScalarExpr:
    """Return sqrt(2 / (pi x)) * (P cos(a) - Q sin(a)) at a = x - order * pi / 2 - pi / 4 + turn."""
    t = x.const(_FAR) / x
    angle = x + (turn - order * math.pi / 2 - math.pi / 4)
    p, q = _P_FAR[order](t), _Q_FAR[order](t) * t
    return (p * e.cos(angle) - q * e.sin(angle)) * e.sqrt(x.const(2 / math.pi) / x)


def modified_second_kind(order: int, x: ScalarExpr, scaled: bool) -> ScalarExpr:
    """Return K(x), or exp(x) * K(x): infinite at 0, NaN for negative x."""
    near, far = e.minimum(x, 2), e.maximum(x, 2)
    square = near * near
    i = _I_SMALL[order](square)
    log = _log_half(near)
    small = _K_NEAR[order](square) * 0.5 - log * i
    if order:
        small = near.const(1) / near - small * near * 0.5
    large = _K_FAR[order](far.const(2) / far) * e.sqrt(far.const(math.pi / 2) / far)
    if scaled:
        small = small * e.exp(near)
    else:
        large = large * e.exp(-far)
    value = e.where(x <= 2, small, e.where(x.eq(math.inf), 0, large))
    return e.where(x < 0, math.nan, e.where(x.eq(0), math.inf, value))


def _spherical(x: ScalarExpr) -> ScalarExpr:
    """Return sin(x) / x."""
    return e.where(x.eq(0), 1, e.where(abs(x).eq(math.inf), 0, e.sin(x) / x))


def _unary(names: str, function: Callable[..., ScalarExpr]) -> None:
    pointwise(names, function, ALL, "unary", tolerance=_TOLERANCE)


def _grown(order: int) -> Callable[[ScalarExpr], ScalarExpr]:
    return lambda self: scaled_i(order, self) * e.exp(abs(self))


_unary("aten::special_i0e", lambda self: scaled_i(0, self))
_unary("aten::special_i1e", lambda self: scaled_i(1, self))
_unary("aten::i0 aten::special_modified_bessel_i0", _grown(0))
_unary("aten::special_i1 aten::special_modified_bessel_i1", _grown(1))
_unary("aten::special_bessel_j0", lambda self: first_kind(0, self))
_unary("aten::special_bessel_j1", lambda self: first_kind(1, self))
_unary("aten::special_bessel_y0", lambda self: second_kind(0, self))
_unary("aten::special_bessel_y1", lambda self: second_kind(1, self))
_unary("aten::special_modified_bessel_k0", lambda self: modified_second_kind(0, self, False))
_unary("aten::special_modified_bessel_k1", lambda self: modified_second_kind(1, self, False))
_unary("aten::special_scaled_modified_bessel_k0", lambda x: modified_second_kind(0, x, True))
_unary("aten::special_scaled_modified_bessel_k1", lambda x: modified_second_kind(1, x, True))
_unary("aten::special_spherical_bessel_j0", _spherical)
