"""Random choices: permutations, and samples of a distribution that is given by weights."""

from __future__ import annotations

import math

from ftm_backend.dtypes import FLOATS, INTS
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.cumulative import scan
from ftm_backend.frontend.oplib.index_scatter import inside, typed
from ftm_backend.frontend.oplib.op_record import EXACT, lowering
from ftm_backend.frontend.oplib.philox import element_number, open_unit, unit, word
from ftm_backend.frontend.oplib.reductions import reduce
from ftm_backend.frontend.oplib.schema_annotations import recorded
from ftm_backend.frontend.oplib.sorting import order, sort_indices
from ftm_backend.frontend.scalar_math import ScalarExpr

recorded(
    "aten::multinomial", tried=("always",), refuses="no_distribution", may_fail=True, draws="choice"
)
recorded("aten::randperm", tried=("out",), converts_to_out=True, draws="permutation")

_FEW = 2**12
"""Up to so many random keys of 32 bits are all different, or nearly always."""


@lowering("aten::randperm aten::randperm.generator", FLOATS + INTS, "random_permutation", EXACT)
def _randperm(
    b: LinalgBuilder, n: int, seed: ScalarExpr, offset: ScalarExpr, **_: object
) -> StridedValue:
    """The places of random keys in sorted order."""

    def short() -> ScalarExpr:
        return word(b, b.index(0), seed, offset)

    def long() -> ScalarExpr:
        low, high = (word(b, b.index(0) * 2 + k, seed, offset) for k in (0, 1))
        return b.emitter.emit("arith.extui", "i64", low) | (
            b.emitter.emit("arith.extsi", "i64", high) << 32
        )

    body, dtype = (short, "i32") if n <= _FEW else (long, "i64")
    return b.cast(sort_indices(b, b.pointwise(body, [], typed(dtype, (n,))), 0), b.result.dtype)


@lowering("aten::multinomial", FLOATS, "random_multinomial", EXACT)
def _multinomial(
    b: LinalgBuilder,
    self: StridedValue,
    num_samples: int,
    seed: ScalarExpr,
    offset: ScalarExpr,
    replacement: bool = False,
) -> StridedValue:
    """Places in rows of weights; a row that is no distribution is a fault, as it is an error on the
    CPU."""
    rows = math.prod(self.shape[:-1])
    weights = b.reshape(self, (rows, self.shape[-1]))
    choose = _with_replacement if replacement else _without_replacement
    places = choose(b, weights, num_samples, seed, offset)
    valid = reduce(b, "and", [weights], [1], "i1", lambda w: (w >= 0) & (w < math.inf))
    some = reduce(b, "or", [weights], [1], "i1", lambda w: w > 0)
    numbers = b.pointwise(lambda: b.index(0), [], typed("i64", (self.shape[-1],)))

    def checked(place: ScalarExpr, numeric: ScalarExpr, positive: ScalarExpr) -> ScalarExpr:
        return b.extract(numbers, [inside(e.where(numeric & positive, place, -1), self.shape[-1])])

    return b.reshape(
        b.pointwise(checked, [places, valid, some], typed("i64", (rows, num_samples))),
        b.result.shape,
    )


def _with_replacement(
    b: LinalgBuilder, weights: StridedValue, count: int, seed: ScalarExpr, offset: ScalarExpr
) -> StridedValue:
    """Inverts the cumulative distribution, in f64: a place is the number of sums that a draw
    reaches."""
    rows, columns = weights.shape
    sums = scan(b, "sum", b.cast(weights, "f64"), 1)

    def draw(total: ScalarExpr) -> ScalarExpr:
        return unit(b, element_number(b, (rows, count)), seed, offset, "f64") * total

    draws = b.pointwise(draw, [sums.slice(1, columns - 1, 1)], typed("f64", (rows, count)))
    reading = [LoopInput(sums, (0, 2)), LoopInput(draws, (0, 1))]
    output = LoopOutput("i64", (rows, count), (0, 1), 0)
    return b.generic(
        (rows, count, columns),
        reading,
        [output],
        lambda reached, drawn, places: places + (reached <= drawn).to("i64"),
        reduced=[2],
    )[0]


def _without_replacement(
    b: LinalgBuilder, weights: StridedValue, count: int, seed: ScalarExpr, offset: ScalarExpr
) -> StridedValue:
    """The first of a race: the greatest of the weights' logarithms with Gumbel noise."""
    dtype = "f64" if weights.dtype == "f64" else "f32"

    def race(weight: ScalarExpr) -> ScalarExpr:
        noise = e.log(
            -e.log(open_unit(b, element_number(b, weights.shape), seed, offset, "f32"))
        ).to(dtype)
        return (e.log(weight.to(dtype)) - noise).to("f32")

    finish = b.pointwise(race, [weights], typed("f32", weights.shape))
    return order(b, finish, 1, descending=True).part(0, count).indices(b)
