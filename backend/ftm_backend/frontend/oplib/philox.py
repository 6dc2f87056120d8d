"""Random numbers in bodies: Philox words by element number, so that bits do not depend on fusion or
tiling.

Element i of an op takes word i, or words 2i and 2i+1 where 32 bits are too few; seed and offset
come with the op as runtime scalars.
"""

from __future__ import annotations

from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.linalg.affine import row_major

__all__ = ["element_number", "open_unit", "unit", "word"]


def element_number(b: LinalgBuilder, shape: tuple[int, ...]) -> ScalarExpr:
    """In a body: the row-major number of the element being computed.

    Also where there is one element only: what is computed from its number stays in the body.
    """
    number = e.ScalarExpr(b.emitter, b.constant(0, "i64").node, "i64")
    for k, stride in enumerate(row_major(shape)):
        if shape[k] > 1:
            number = b.index(k) * stride + number
    return number


def word(b: LinalgBuilder, number: ScalarExpr, seed: ScalarExpr, offset: ScalarExpr) -> ScalarExpr:
    """The 32-bit word of Philox that has this number in the stream of (seed, offset)."""
    return b.emitter.emit("ftm.philox", "i32", number, seed, offset)


def _shifted(word: ScalarExpr, bits: int) -> ScalarExpr:
    """Unsigned ``word >> bits``; bits of at least 1 make it non-negative."""
    return e.apply("arith.shrui", word, word.const(bits))


def unit(
    b: LinalgBuilder, number: ScalarExpr, seed: ScalarExpr, offset: ScalarExpr, dtype: str
) -> ScalarExpr:
    """Uniform in [0, 1): 24 bits for f32, 53 for f64."""
    if dtype != "f64":
        return _shifted(word(b, number, seed, offset), 8).to("f32") * 2.0**-24
    high = _shifted(word(b, number * 2, seed, offset), 5).to("f64")
    low = _shifted(word(b, number * 2 + 1, seed, offset), 6).to("f64")
    return (high * 2.0**26 + low) * 2.0**-53


def open_unit(
    b: LinalgBuilder, number: ScalarExpr, seed: ScalarExpr, offset: ScalarExpr, dtype: str
) -> ScalarExpr:
    """Uniform in (0, 1), symmetric: the midpoints of 2^23 (f64: 2^52) intervals."""
    if dtype != "f64":
        return (_shifted(word(b, number, seed, offset), 9).to("f32") + 0.5) * 2.0**-23
    high = _shifted(word(b, number * 2, seed, offset), 5).to("f64")
    low = _shifted(word(b, number * 2 + 1, seed, offset), 7).to("f64")
    return (high * 2.0**25 + low + 0.5) * 2.0**-52
