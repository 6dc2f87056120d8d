"""Op records of random choices: permutations, and samples from weights."""

from __future__ import annotations

import math

from ftm_backend.dtypes import FLOATS, INTS
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.advanced_indexing import checked_index, tensor_type
from ftm_backend.frontend.oplib.cumulative import scan
from ftm_backend.frontend.oplib.op_registry import EXACT, lowering
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.oplib.philox import RandomStream, element_index
from ftm_backend.frontend.oplib.reductions import reduce
from ftm_backend.frontend.oplib.sorting import sort_indices, sort_rows
from ftm_backend.frontend.scalar_math import ScalarExpr

recorded(
    "aten::multinomial", tried=("always",), refuses="no_distribution", may_fail=True, draws="choice"
)
recorded("aten::randperm", tried=("out",), converts_to_out=True, draws="permutation")

_FEW = 2**12
"""Maximum length for which random 32-bit keys are almost certainly distinct."""


@lowering("aten::randperm aten::randperm.generator", FLOATS + INTS, "random_permutation", EXACT)
def _randperm(
    b: LinalgBuilder, n: int, seed: ScalarExpr, offset: ScalarExpr, **_: object
) -> StridedValue:
    """Sort random keys, and return the permutation."""

    def key() -> ScalarExpr:
        stream = RandomStream(seed, offset, b.index(0))
        return stream.word() if n <= _FEW else stream.long_word()

    keys = b.pointwise(key, [], tensor_type("i32" if n <= _FEW else "i64", (n,)))
    return b.cast(sort_indices(b, keys, 0), b.result.dtype)


@lowering("aten::multinomial", FLOATS, "random_multinomial", EXACT)
def _multinomial(
    b: LinalgBuilder,
    self: StridedValue,
    num_samples: int,
    seed: ScalarExpr,
    offset: ScalarExpr,
    replacement: bool = False,
) -> StridedValue:
    """Sample columns by the weights of each row; a row that is no distribution faults."""
    rows = math.prod(self.shape[:-1])
    weights = b.reshape(self, (rows, self.shape[-1]))
    choose = _with_replacement if replacement else _without_replacement
    indices = choose(b, weights, num_samples, seed, offset)
    valid = reduce(b, "and", [weights], [1], "i1", lambda w: (w >= 0) & (w < math.inf))
    some = reduce(b, "or", [weights], [1], "i1", lambda w: w > 0)
    numbers = b.pointwise(lambda: b.index(0), [], tensor_type("i64", (self.shape[-1],)))

    def checked(index: ScalarExpr, numeric: ScalarExpr, positive: ScalarExpr) -> ScalarExpr:
        return b.extract(
            numbers, [checked_index(e.where(numeric & positive, index, -1), self.shape[-1])]
        )

    return b.reshape(
        b.pointwise(checked, [indices, valid, some], tensor_type("i64", (rows, num_samples))),
        b.result.shape,
    )


def _with_replacement(
    b: LinalgBuilder, weights: StridedValue, count: int, seed: ScalarExpr, offset: ScalarExpr
) -> StridedValue:
    """Invert the cumulative distribution in f64: count the partial sums that a draw reaches."""
    rows, columns = weights.shape
    sums = scan(b, "sum", b.cast(weights, "f64"), 1)

    def draw(total: ScalarExpr) -> ScalarExpr:
        return RandomStream(seed, offset, element_index(b, (rows, count))).uniform("f64") * total

    draws = b.pointwise(draw, [sums.slice(1, columns - 1, 1)], tensor_type("f64", (rows, count)))
    reading = [LoopInput(sums, (0, 2)), LoopInput(draws, (0, 1))]
    output = LoopOutput("i64", (rows, count), (0, 1), 0)
    return b.generic(
        (rows, count, columns),
        reading,
        [output],
        lambda reached, drawn, indices: indices + (reached <= drawn).to("i64"),
        reduced=[2],
    )[0]


def _without_replacement(
    b: LinalgBuilder, weights: StridedValue, count: int, seed: ScalarExpr, offset: ScalarExpr
) -> StridedValue:
    """Sort the weights' logarithms plus Gumbel noise in descending order (Gumbel top-k)."""
    dtype = "f64" if weights.dtype == "f64" else "f32"

    def race(weight: ScalarExpr) -> ScalarExpr:
        stream = RandomStream(seed, offset, element_index(b, weights.shape))
        noise = e.log(-e.log(stream.open_uniform("f32"))).to(dtype)
        return (e.log(weight.to(dtype)) - noise).to("f32")

    finish = b.pointwise(race, [weights])
    return sort_rows(b, finish, 1, descending=True).part(0, count).indices(b)
