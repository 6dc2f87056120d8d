"""Campaign: elementwise functions against mpmath, for functions where mpmath is fast enough.

A case is a function, a dtype and some dozens of points: denormal and huge numbers, both sides of
poles, branch points and zeros, and random ones. The error may be ``bound`` units in the last place,
or twice the CPU's. For infinities, NaN and zeros the result must equal the CPU's.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
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

    torch: The op. truth: From a finite mpmath number to the value; None where mpmath takes too
    long. bound: Allowed error in units in the last place. scale: Errors of smaller values are
    measured in units in the last place of this one, as near zeros of Bessel functions.
    """

    torch: Callable[[Tensor], Tensor]
    truth: Callable[[Any], Any]
    bound: float = 4.0
    scale: float = 0.0


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


def _bounded_exp(x: Any) -> Any:
    return mp.exp(x) if x > -1e5 else mp.mpf(0)


def _erfc(x: Any) -> Any:
    return mp.erfc(x) if abs(x) < 1e5 else mp.mpf(0 if x > 0 else 2)


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
    "gelu": Function(functional.gelu, lambda x: x * _erfc(-x / mp.sqrt(2)) / 2, bound=16),
    "elu": Function(functional.elu, lambda x: x if x > 0 else mp.expm1(x)),
    "softsign": Function(functional.softsign, lambda x: x / (1 + abs(x))),
    "erf": Function(torch.erf, mp.erf),
    "erfc": Function(torch.erfc, _erfc),
    "erfinv": Function(
        torch.erfinv,
        lambda x: mp.erfinv(x) if abs(x) < 1 else mp.inf * mp.sign(x) if abs(x) == 1 else mp.nan,
        bound=64,
    ),
    "ndtr": Function(special.ndtr, lambda x: _erfc(-x / mp.sqrt(2)) / 2, bound=16),
    "log_ndtr": Function(
        special.log_ndtr, _up_to(1e3, lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)), bound=32
    ),
    "entr": Function(
        special.entr, lambda x: -x * mp.log(x) if x > 0 else mp.mpf(0) if x == 0 else -mp.inf
    ),
    "sinc": Function(torch.sinc, _up_to(1e4, mp.sincpi), scale=1e-2, bound=32),
    "lgamma": Function(torch.lgamma, _lgamma, scale=8, bound=8),
    "digamma": Function(
        torch.digamma,
        lambda x: -mp.inf if x == 0 else mp.nan if x < 0 and _integer(x) else mp.digamma(x),
        scale=1,
        bound=32,
    ),
    "trigamma": Function(
        lambda x: torch.polygamma(1, x),
        lambda x: mp.inf if x <= 0 and _integer(x) else mp.psi(1, x),
        bound=64,
    ),
    "i0e": Function(
        special.i0e, _up_to(1e3, lambda x: mp.besseli(0, x) * mp.exp(-abs(x))), bound=256
    ),
    "i1e": Function(
        special.i1e, _up_to(1e3, lambda x: mp.besseli(1, x) * mp.exp(-abs(x))), bound=512
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
        bound=128,
    ),
    "modified_bessel_k1": Function(
        special.modified_bessel_k1,
        _up_to(80, _positive(lambda x: mp.besselk(1, x), math.inf)),
        bound=128,
    ),
}

BETTER_AT_INFINITY = {("gelu", math.inf)}
"""Where the CPU's vectors give NaN and the limit exists."""

SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan)
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


def faults(name: str, form: Format, x: Tensor) -> list[str]:
    """What a function gets wrong at these points and at the special ones."""
    function, found = FUNCTIONS[name], []
    x = torch.cat([x, torch.tensor(SPECIAL, dtype=form.dtype)])
    ours, eager = (function.torch(x.to(device)).cpu().tolist() for device in ("ftm", "cpu"))
    for at, got, cpu in zip(x.tolist(), ours, eager, strict=True):
        is_same = got == cpu and math.copysign(1, got) == math.copysign(1, cpu)
        if is_same or (math.isnan(got) and math.isnan(cpu)):
            continue
        if not math.isfinite(at):
            if (name, at) not in BETTER_AT_INFINITY:
                found.append(f"of {at}: {got}, CPU {cpu}")
            continue
        want = function.truth(mp.mpf(at))
        if want is None:
            continue
        distance, of_cpu = (error(value, want, form, function.scale) for value in (got, cpu))
        if not distance <= max(function.bound, 2 * of_cpu):
            found.append(
                f"of {at!r}: {got!r}, true {mp.nstr(want, 17)} ({distance:.3g} ulp), CPU {cpu!r} ({of_cpu:.3g} ulp)"
            )
    return found


def check(random: Random) -> str | None:
    """One function in one dtype."""
    name, form = random.choice(list(FUNCTIONS)), random.choice(list(FORMATS.values()))
    try:
        FUNCTIONS[name].torch(torch.ones(1, dtype=form.dtype))
    except NotImplementedError:
        return None  # the CPU lacks the dtype
    found = faults(name, form, points(random, form))
    return f"{name} {form.dtype} {found[0]} and {len(found) - 1} more" if found else None


if __name__ == "__main__":
    campaign.main("functions", check, count=1000)
