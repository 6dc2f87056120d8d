"""Campaign: elementwise functions against mpmath, for functions where mpmath is fast enough.

A case is a function of one or two numbers, a dtype and some dozens of points: denormal and huge
numbers, both sides of poles, branch points and zeros, and random ones. A result may be ``bound``
units in the last place from the truth, or twice as far as the CPU's. Infinities, NaN and zeros must
give what the CPU gives.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import mpmath as mp
import torch
from torch import Tensor, special
from torch.nn import functional

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from strangers import campaign

mp.mp.dps = 40
POINTS = 48


@dataclass(frozen=True)
class Function:
    """An elementwise function.

    Attributes:
        torch: The op.
        truth: From finite mpmath numbers to the value; None where mpmath takes too long. Without
            it, the op is exact: the CPU's result is the only right one.
        bound: Allowed error in units in the last place.
        scale: Errors of smaller values are measured in units in the last place of this one, as near
            zeros of Bessel functions.
        operands: How many tensors the op takes.
        least: Smallest point. Eager's polygamma and zeta add a term for each unit below zero: at
            -1e10 they take a minute. In gelu and ndtr, `1 + erf(x)` cancels.
    """

    torch: Callable[..., Tensor]
    truth: Callable[..., Any] | None
    bound: float = 4.0
    scale: float = 0.0
    operands: int = 1
    least: float = -math.inf


@dataclass(frozen=True)
class Format:
    """A floating dtype: binary digits, and exponents e of numbers 2**e from the smallest normal
    number to past the largest."""

    dtype: torch.dtype
    digits: int
    lowest: int
    highest: int


FORMATS = {
    "float32": Format(torch.float32, 24, -126, 128),
    "float64": Format(torch.float64, 53, -1022, 1024),
    "bfloat16": Format(torch.bfloat16, 8, -126, 128),
    "float16": Format(torch.float16, 11, -14, 16),
}


def _on(
    condition: Callable[[Any], bool],
    function: Callable[[Any], Any],
    pole: float | None = None,
    at_pole: float = -math.inf,
) -> Callable[[Any], Any]:
    """``function`` where the condition holds; ``at_pole`` at the pole, NaN elsewhere."""
    return lambda x: function(x) if condition(x) else mp.mpf(at_pole) if x == pole else mp.nan


def _positive(function: Callable[[Any], Any], at_zero: float = -math.inf) -> Callable[[Any], Any]:
    return _on(lambda x: x > 0, function, 0.0, at_zero)


def _up_to(limit: float, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: function(x) if abs(x) < limit else None


def _integer(x: Any) -> bool:
    return bool(x == mp.floor(x))


def _lgamma(x: Any) -> Any:
    return (
        mp.inf
        if x <= 0 and _integer(x)
        else mp.log(abs(mp.gamma(x)))
        if abs(x) < 150
        else mp.re(mp.loggamma(x))
    )


def _lgamma_right(x: Any) -> Any:
    return mp.loggamma(abs(x) + mp.mpf(0.5)) if abs(x) < 2**40 else None


def _bounded_exp(x: Any) -> Any:
    return mp.exp(x) if x > -1e5 else mp.mpf(0)


def _erfc(x: Any) -> Any:
    return mp.erfc(x) if abs(x) < 1e5 else mp.mpf(0 if x > 0 else 2)


def _ndtri(p: Any) -> Any:
    """The quantile of the normal distribution, by Newton's method on the logarithm."""
    if p in (0, 1):
        return mp.inf if p else -mp.inf
    if p > 0.01:
        return mp.sqrt(2) * mp.erfinv(2 * p - 1)
    y = -mp.sqrt(-2 * mp.log(p))
    for _ in range(60):
        tail = mp.erfc(-y / mp.sqrt(2)) / 2
        change = mp.log(tail / p) * tail * mp.sqrt(2 * mp.pi) * mp.exp(y * y / 2)
        y -= change
        if abs(change) < 1e-30:
            break
    return y


def _polygamma(n: int, x: Any) -> Any:
    if x <= 0 and _integer(x):
        return mp.mpf((-1) ** (n + 1)) * mp.inf
    return mp.psi(n, x) if 1e-60 < abs(x) < 1e6 else None


def _zeta(s: Any, q: Any) -> Any:
    return mp.zeta(s, q) if 1 < s < 60 and 1e-3 < q < 1e3 else None


def _log(x: Any) -> Any:
    return mp.log(x) if x > 0 else -mp.inf if x == 0 else mp.nan


def _times(x: Any, y: Any) -> Any:
    """x * y, where 0 wins over infinity."""
    return mp.mpf(0) if x == 0 and not mp.isnan(y) else x * y


def _power(x: Any, y: Any) -> Any:
    if x == 0 or (x < 0 and not _integer(y)):
        return None  # edges, which are the CPU's to say
    size = y * mp.log(abs(x))
    value = mp.mpf(0) if size < -1e5 else mp.inf if size > 1e5 else mp.exp(size)
    return -value if x < 0 and y % 2 else value


def _fmod(x: Any, y: Any) -> Any:
    return mp.mpf(math.fmod(x, y)) if y else mp.nan


def _remainder(x: Any, y: Any) -> Any:
    rest = _fmod(x, y)
    return rest + y if rest and (rest < 0) != (y < 0) else rest


def _ldexp(x: Tensor, y: Tensor) -> Tensor:
    return torch.ldexp(x, y.nan_to_num(0).clamp(-3000, 3000).round().int())


def _igamma(upper: bool) -> Callable[[Any, Any], Any]:
    ends = (lambda x: (x, mp.inf)) if upper else (lambda x: (0, x))
    return lambda a, x: (
        mp.gammainc(a, *ends(x), regularized=True) if 1e-2 < a < 50 and 1e-2 < x < 50 else None
    )


FUNCTIONS: dict[str, Function] = {
    "exp": Function(torch.exp, mp.exp),
    "exp2": Function(torch.exp2, lambda x: mp.power(2, x)),
    "expm1": Function(torch.expm1, mp.expm1),
    "log": Function(torch.log, _positive(mp.log)),
    "log2": Function(torch.log2, _positive(lambda x: mp.log(x, 2))),
    "log10": Function(torch.log10, _positive(mp.log10)),
    "log1p": Function(torch.log1p, _on(lambda x: x > -1, mp.log1p, -1.0)),
    "sin": Function(torch.sin, mp.sin),
    "cos": Function(torch.cos, mp.cos),
    "tan": Function(torch.tan, mp.tan),
    "asin": Function(torch.asin, _on(lambda x: abs(x) <= 1, mp.asin)),
    "acos": Function(torch.acos, _on(lambda x: abs(x) <= 1, mp.acos)),
    "atan": Function(torch.atan, mp.atan),
    "sinh": Function(torch.sinh, mp.sinh),
    "cosh": Function(torch.cosh, mp.cosh),
    "tanh": Function(torch.tanh, mp.tanh),
    "asinh": Function(torch.asinh, mp.asinh),
    "acosh": Function(torch.acosh, _on(lambda x: x >= 1, mp.acosh)),
    "atanh": Function(
        torch.atanh,
        lambda x: mp.atanh(x) if abs(x) < 1 else mp.inf * mp.sign(x) if abs(x) == 1 else mp.nan,
    ),
    "sqrt": Function(torch.sqrt, _on(lambda x: x >= 0, mp.sqrt)),
    "rsqrt": Function(torch.rsqrt, _positive(lambda x: 1 / mp.sqrt(x), math.inf)),
    "square": Function(torch.square, lambda x: x * x),
    "x ** 2.5": Function(lambda x: x**2.5, _on(lambda x: x >= 0, lambda x: mp.power(x, 2.5))),
    "x ** -1.5": Function(lambda x: x**-1.5, _positive(lambda x: mp.power(x, -1.5), math.inf)),
    "x ** 7": Function(lambda x: x**7.0, lambda x: x**7),
    "2.5 ** x": Function(lambda x: 2.5**x, lambda x: mp.power(2.5, x)),
    "sigmoid": Function(torch.sigmoid, lambda x: 1 / (1 + mp.exp(-x)) if x > -1e5 else mp.mpf(0)),
    "softplus": Function(functional.softplus, lambda x: x if x > 20 else mp.log1p(_bounded_exp(x))),
    "silu": Function(functional.silu, lambda x: x / (1 + mp.exp(-x)) if x > -1e5 else mp.mpf(0)),
    "gelu": Function(functional.gelu, lambda x: x * _erfc(-x / mp.sqrt(2)) / 2, bound=16, least=-1),
    "elu": Function(functional.elu, lambda x: x if x > 0 else mp.expm1(x)),
    "softsign": Function(functional.softsign, lambda x: x / (1 + abs(x))),
    "erf": Function(torch.erf, mp.erf),
    "erfc": Function(torch.erfc, _erfc),
    "erfinv": Function(
        torch.erfinv,
        lambda x: mp.erfinv(x) if abs(x) < 1 else mp.inf * mp.sign(x) if abs(x) == 1 else mp.nan,
        bound=8,
    ),
    "ndtr": Function(special.ndtr, lambda x: _erfc(-x / mp.sqrt(2)) / 2, bound=16, least=-1),
    "log_ndtr": Function(
        special.log_ndtr, _up_to(1e3, lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)), bound=32
    ),
    "entr": Function(
        special.entr, lambda x: -x * mp.log(x) if x > 0 else mp.mpf(0) if x == 0 else -mp.inf
    ),
    "sinc": Function(torch.sinc, _up_to(1e4, mp.sincpi), scale=1e-2, bound=32),
    "lgamma": Function(torch.lgamma, _lgamma, scale=8, bound=8),
    "lgamma right of 1/2": Function(lambda x: torch.lgamma(abs(x) + 0.5), _lgamma_right, bound=16),
    "digamma": Function(
        torch.digamma,
        lambda x: -mp.inf if x == 0 else mp.nan if x < 0 and _integer(x) else mp.digamma(x),
        scale=1,
        bound=16,
    ),
    "trigamma": Function(
        lambda x: torch.polygamma(1, x),
        lambda x: mp.inf if x <= 0 and _integer(x) else mp.psi(1, x),
        bound=16,
    ),
    "i0e": Function(
        special.i0e, _up_to(1e3, lambda x: mp.besseli(0, x) * mp.exp(-abs(x))), bound=16
    ),
    "i1e": Function(
        special.i1e, _up_to(1e3, lambda x: mp.besseli(1, x) * mp.exp(-abs(x))), bound=32
    ),
    "bessel_j0": Function(
        special.bessel_j0, _up_to(1e2, lambda x: mp.besselj(0, x)), scale=1, bound=32
    ),
    "bessel_j1": Function(
        special.bessel_j1, _up_to(1e2, lambda x: mp.besselj(1, x)), scale=1, bound=32
    ),
    "bessel_y0": Function(
        special.bessel_y0, _up_to(1e2, _positive(lambda x: mp.bessely(0, x))), scale=1, bound=64
    ),
    "bessel_y1": Function(
        special.bessel_y1, _up_to(1e2, _positive(lambda x: mp.bessely(1, x))), scale=1, bound=32
    ),
    "modified_bessel_k0": Function(
        special.modified_bessel_k0,
        _up_to(80, _positive(lambda x: mp.besselk(0, x), math.inf)),
        bound=16,
    ),
    "modified_bessel_k1": Function(
        special.modified_bessel_k1,
        _up_to(80, _positive(lambda x: mp.besselk(1, x), math.inf)),
        bound=16,
    ),
    "i0": Function(torch.i0, _up_to(500, lambda x: mp.besseli(0, x)), bound=16),
    "i1": Function(special.i1, _up_to(500, lambda x: mp.besseli(1, x)), bound=32),
    "scaled_modified_bessel_k0": Function(
        special.scaled_modified_bessel_k0,
        _up_to(80, _positive(lambda x: mp.besselk(0, x) * mp.exp(x), math.inf)),
        bound=16,
    ),
    "scaled_modified_bessel_k1": Function(
        special.scaled_modified_bessel_k1,
        _up_to(80, _positive(lambda x: mp.besselk(1, x) * mp.exp(x), math.inf)),
        bound=16,
    ),
    "airy_ai": Function(special.airy_ai, _up_to(40, mp.airyai), scale=1),
    "erfcx": Function(special.erfcx, _up_to(1e3, lambda x: mp.exp(x * x) * mp.erfc(x)), bound=8),
    "ndtri": Function(special.ndtri, _on(lambda x: 0 <= x <= 1, _ndtri), bound=16),
    "logit": Function(
        torch.logit,
        lambda x: (
            mp.log(x / (1 - x))
            if 0 < x < 1
            else mp.mpf(-math.inf if x == 0 else math.inf if x == 1 else math.nan)
        ),
    ),
    "polygamma(2)": Function(
        lambda x: torch.polygamma(2, x), lambda x: _polygamma(2, x), bound=16, least=-1e5
    ),
    "polygamma(3)": Function(
        lambda x: torch.polygamma(3, x), lambda x: _polygamma(3, x), bound=16, least=-1e5
    ),
    "zeta": Function(special.zeta, _zeta, bound=32, operands=2, least=-1e5),
    "xlogy": Function(torch.xlogy, lambda x, y: _times(x, _log(y)), operands=2),
    "xlog1py": Function(special.xlog1py, lambda x, y: _times(x, _log(1 + y)), operands=2),
    "hypot": Function(torch.hypot, mp.hypot, operands=2),
    "atan2": Function(torch.atan2, mp.atan2, operands=2),
    "pow": Function(torch.pow, _power, operands=2),
    "logaddexp": Function(
        torch.logaddexp,
        lambda x, y: max(x, y) + mp.log1p(_bounded_exp(-abs(x - y))),
        scale=1,
        operands=2,
    ),
    "igamma": Function(torch.igamma, _igamma(upper=False), operands=2),
    "igammac": Function(torch.igammac, _igamma(upper=True), operands=2),
    "fmod": Function(torch.fmod, _fmod, operands=2),
    "remainder": Function(torch.remainder, _remainder, operands=2),
    "nextafter": Function(torch.nextafter, None, operands=2),
    "ldexp": Function(_ldexp, None, operands=2),
    "copysign": Function(torch.copysign, None, operands=2),
}

BETTER_AT_INFINITY = {
    ("gelu", math.inf),
    ("polygamma(2)", math.inf),
    ("polygamma(3)", math.inf),
    ("zeta", math.inf, 2.0),
}
"""Where the CPU's kernels give NaN and the limit exists."""

SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan)
SOME_SPECIAL = torch.tensor([1.0, 0.0, -1.0, -0.0, 2.0, math.inf, -3.0, -math.inf, 0.5, math.nan])
"""Each with its neighbour, for functions of two numbers."""
LANDMARKS = (
    *(
        0.0,
        0.25,
        0.5,
        1.0,
        1.5,
        2.0,
        3.0,
        4.0,
        7.0,
        8.0,
        9.0,
        math.e,
        math.pi / 2,
        math.pi,
        20.0,
        33.0,
    ),
    *(88.7, 89.0, 89.4, 103.9, 709.7, 710.4, 745.1),
    *(
        1.4616321449683622,
        2.404825557695773,
        3.8317059702075125,
        0.8935769662791676,
        2.197141326031017,
    ),
)
"""Poles, branch points, zeros and ends of ranges."""


def points(random: Random, form: Format) -> Tensor:
    """Points of a dtype, finite."""
    smallest = form.lowest - form.digits + 1
    step = 2.0 ** -(form.digits - 1)
    found: list[float] = []
    for _ in range(POINTS):
        near = random.choice(LANDMARKS) * random.choice(
            [1.0, 1 + step, 1 - step, 1 + 2.0 ** -(form.digits // 2)]
        )
        spread = math.ldexp(1 + random.random(), random.randrange(smallest, form.highest - 1))
        found.append(
            random.choice(
                [
                    near,
                    spread,
                    random.uniform(0, 1),
                    random.uniform(0, 12),
                    1 - random.random() * 2**-10,
                ]
            )
        )
    chosen = torch.tensor([random.choice([1, -1]) * x for x in found], dtype=torch.float64).to(
        form.dtype
    )
    return chosen[chosen.isfinite()]


def error(got: float, want: Any, form: Format, scale: float) -> float:
    """Distance in units in the last place; infinite for a NaN or an infinity that should be none,
    or the other way around."""
    largest = mp.mpf(2) ** form.highest * (1 - mp.mpf(2) ** (-form.digits - 1))
    if mp.isnan(want) or math.isnan(got):
        return 0.0 if mp.isnan(want) and math.isnan(got) else math.inf
    if abs(want) >= largest or math.isinf(got):
        near = 4 * mp.mpf(2) ** -form.digits
        return (
            0.0
            if abs(got) >= largest * (1 - near)
            and abs(want) >= largest * (1 - near)
            and got * want > 0
            else math.inf
        )
    size = max(abs(want), mp.mpf(scale))
    exponent = max(int(mp.floor(mp.log(size, 2))), form.lowest) if size else form.lowest
    return float(abs(mp.mpf(got) - want) / mp.mpf(2) ** (exponent - form.digits + 1))


def faults(name: str, form: Format, *operands: Tensor) -> list[str]:
    """What a function gets wrong at these points and at the special ones."""
    function, found = FUNCTIONS[name], []
    special_values = torch.tensor(list(product(SPECIAL, repeat=len(operands))), dtype=form.dtype)
    xs = [
        torch.cat([x, special_values[:, i], SOME_SPECIAL.to(form.dtype).roll(i)])
        for i, x in enumerate(operands)
    ]
    ours, eager = (
        function.torch(*(x.to(device) for x in xs)).cpu().tolist() for device in ("ftm", "cpu")
    )
    for at, got, cpu in zip(zip(*(x.tolist() for x in xs), strict=True), ours, eager, strict=True):
        is_same = got == cpu and math.copysign(1, got) == math.copysign(1, cpu)
        if is_same or (math.isnan(got) and math.isnan(cpu)):
            continue
        where = ", ".join(map(repr, at))
        if function.truth is None or not all(map(math.isfinite, at)):
            if (name, *at) not in BETTER_AT_INFINITY:
                found.append(f"of {where}: {got}, CPU {cpu}")
            continue
        want = function.truth(*map(mp.mpf, at))
        if want is None:
            continue
        distance, of_cpu = (error(value, want, form, function.scale) for value in (got, cpu))
        if not distance <= max(function.bound, 2 * of_cpu):
            found.append(
                f"of {where}: {got!r}, true {mp.nstr(want, 17)} ({distance:.3g} ulp), "
                f"CPU {cpu!r} ({of_cpu:.3g} ulp)"
            )
    return found


def check(random: Random) -> str | None:
    """One function in one dtype."""
    name, form = random.choice(list(FUNCTIONS)), random.choice(list(FORMATS.values()))
    function = FUNCTIONS[name]
    try:
        function.torch(*[torch.ones(1, dtype=form.dtype)] * function.operands)
    except NotImplementedError:
        return None  # the CPU lacks the dtype
    operands = [
        x[x >= function.least] for x in (points(random, form) for _ in range(function.operands))
    ]
    count = min(map(len, operands))
    found = faults(name, form, *(x[:count] for x in operands))
    return f"{name} {form.dtype} {found[0]} and {len(found) - 1} more" if found else None


if __name__ == "__main__":
    campaign.main("functions", check, count=1000)
