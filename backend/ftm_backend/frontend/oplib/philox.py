"""Random numbers in bodies: the Philox generator, indexed by element.

Element i uses word i of the stream, or words 2i and 2i+1 if it needs more than 32 bits, so results
do not depend on fusion or tiling. Seed and offset are runtime scalars of the op.
"""

from __future__ import annotations

from dataclasses import dataclass

from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.linalg.affine import row_major


def element_index(b: LinalgBuilder, shape: tuple[int, ...]) -> ScalarExpr:
    """In a body: return the row-major index of the current element.

    It is never uniform, even for a single element, so that expressions of it stay in the body.
    """
    number = e.ScalarExpr(b.emitter, b.constant(0, "i64").node, "i64")
    for k, stride in enumerate(row_major(shape)):
        if shape[k] > 1:
            number = b.index(k) * stride + number
    return number


def _shifted(word: ScalarExpr, bits: int) -> ScalarExpr:
    """Shift right without sign; at least 1 bit makes the result nonnegative."""
    return e.apply("arith.shrui", word, word.const(bits))


@dataclass(frozen=True, slots=True)
class RandomStream:
    """A position in a stream of random words.

    Attributes:
        seed: The stream's seed.
        offset: The stream's offset.
        number: Index of the next word, usually that of the current element.
    """

    seed: ScalarExpr
    offset: ScalarExpr
    number: ScalarExpr

    def half(self, k: int) -> RandomStream:
        """Return part 0 or 1 of the stream, for elements that need more than one word."""
        return RandomStream(self.seed, self.offset, self.number * 2 + k if k else self.number * 2)

    def word(self) -> ScalarExpr:
        """Return the 32-bit word."""
        emitter = self.number.emitter
        return emitter.emit("ftm.philox", "i32", self.number, self.seed, self.offset)

    def long_word(self) -> ScalarExpr:
        """Return 64 bits, of two words."""
        emit = self.number.emitter.emit
        high = emit("arith.extsi", "i64", self.half(1).word())
        return emit("arith.extui", "i64", self.half(0).word()) | (high << 32)

    def uniform(self, dtype: str) -> ScalarExpr:
        """Draw uniformly from [0, 1), with 24 bits for f32 and 53 for f64."""
        if dtype != "f64":
            return _shifted(self.word(), 8).to("f32") * 2.0**-24
        high = _shifted(self.half(0).word(), 5).to("f64")
        low = _shifted(self.half(1).word(), 6).to("f64")
        return (high * 2.0**26 + low) * 2.0**-53

    def open_uniform(self, dtype: str) -> ScalarExpr:
        """Draw uniformly and symmetrically from (0, 1): midpoints of 2^23 intervals (f64: 2^52)."""
        if dtype != "f64":
            return (_shifted(self.word(), 9).to("f32") + 0.5) * 2.0**-23
        high = _shifted(self.half(0).word(), 5).to("f64")
        low = _shifted(self.half(1).word(), 7).to("f64")
        return (high * 2.0**25 + low + 0.5) * 2.0**-52
