"""Op records of random distributions and dropout; `oplib/philox.py` generates the bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from ftm_backend.dtypes import ALL, BOOL, FLOATS, NUMBERS, compute_dtype, info
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.float_bits import next_after, round_down, round_up
from ftm_backend.frontend.oplib.op_registry import EXACT, TOLERANCE, lowering
from ftm_backend.frontend.oplib.op_traits import ValueDomain, recorded
from ftm_backend.frontend.oplib.philox import RandomStream, element_index
from ftm_backend.frontend.oplib.value_preconditions import fault_unless
from ftm_backend.frontend.scalar_math import Number, ScalarExpr

# their parameters may be tensors on the device
recorded(
    "aten::bernoulli",
    domain=ValueDomain(0, "p", 1),
    may_fail=True,
    converts_to_out=True,
    draws="bernoulli",
)
recorded("aten::normal", tried=("out",), may_fail=True, converts_to_out=True, draws="normal")
recorded(
    "aten::native_dropout",
    runtime=("p",),
    domain=ValueDomain(0, "p", 1, where="train"),
    draws="dropout",
)
recorded("aten::uniform", draws="uniform")
recorded("aten::normal_functional", draws="normal")
recorded("aten::log_normal", draws="log_normal")
recorded("aten::exponential", draws="exponential")
recorded("aten::cauchy", draws="cauchy")
recorded("aten::geometric", draws="geometric")
recorded("aten::random", draws="integers")
recorded("aten::native_dropout_backward", runtime=("scale",))


def _random(
    names: str,
    family: str,
    element: Callable[..., ScalarExpr],
    dtypes: Iterable[str] = FLOATS,
    inputs: tuple[str, ...] = (),
    tolerance: dict[str, tuple[float, float]] = TOLERANCE,
    demands: dict[str, Callable[[ScalarExpr], ScalarExpr]] | None = None,
) -> None:
    """Register an op whose element is ``element(b, stream, **arguments)``.

    Args:
        names: Op names, separated by blanks.
        family: The tests' sample generator.
        element: Computes one element from `stream`, at the element's index.
        dtypes: Accepted dtypes.
        inputs: Arguments that may be tensors; `element` gets their elements.
        tolerance: By dtype.
        demands: By argument, the condition on elements of a tensor.
    """

    @lowering(names, dtypes, family, tolerance)
    def lower(
        b: LinalgBuilder, seed: ScalarExpr, offset: ScalarExpr, **arguments: object
    ) -> StridedValue:
        result = b.result
        values = {k: v for k, v in arguments.items() if k in inputs and isinstance(v, StridedValue)}
        rest = {k: v for k, v in arguments.items() if k not in values}
        rank = len(result.shape)
        checks = [
            fault_unless(b, values[name], demand)
            for name, demand in (demands or {}).items()
            if name in values
        ]

        def body(*elems: ScalarExpr) -> ScalarExpr:
            number = element_index(b, result.shape)
            for check in elems[len(values) :]:
                number = number + check
            stream = RandomStream(seed, offset, number)
            return element(b, stream, **dict(zip(values, elems, strict=False)), **rest)

        reading = [LoopInput(v, range(rank - v.rank, rank)) for v in [*values.values(), *checks]]
        return b.generic(
            result.shape, reading, [LoopOutput(result.dtype, result.shape, range(rank))], body
        )[0]


def _uniform(
    b: LinalgBuilder, stream: RandomStream, from_: Number = 0.0, to: Number = 1.0, **_: object
) -> ScalarExpr:
    """Draw from [from, to), rounding down: rounding to nearest could give ``to``."""
    token = b.result.dtype
    dtype = compute_dtype(token)
    low, high = b.scalar_operand(from_, token), b.scalar_operand(to, token)
    first, end = low.to(dtype), high.to(dtype)
    last = e.maximum(next_after(high, -math.inf).to(dtype), first)
    return round_down(e.minimum(first + stream.uniform(dtype) * (end - first), last), token)


def _normal(
    b: LinalgBuilder, stream: RandomStream, mean: Number = 0.0, std: Number = 1.0, **_: object
) -> ScalarExpr:
    """Draw by the Box-Muller transform from two numbers per element."""
    dtype = compute_dtype(b.result.dtype)
    first, second = (stream.half(k).open_uniform(dtype) for k in (0, 1))
    z = e.sqrt(e.log(first) * -2) * e.cos(second * (2 * math.pi))
    return z * b.scalar_operand(std, dtype) + b.scalar_operand(mean, dtype)


def _log_normal(
    b: LinalgBuilder, stream: RandomStream, mean: Number = 1.0, std: Number = 2.0, **_: object
) -> ScalarExpr:
    return e.exp(_normal(b, stream, mean, std))


def _cauchy(
    b: LinalgBuilder, stream: RandomStream, median: Number = 0.0, sigma: Number = 1.0, **_: object
) -> ScalarExpr:
    """Return tan(pi (u - 1/2)) as the cotangent of an angle that is exact at the poles."""
    dtype = compute_dtype(b.result.dtype)
    centred = stream.open_uniform(dtype) - 0.5
    angle = (0.5 - abs(centred)) * math.pi
    tangent = e.copysign(e.cos(angle) / e.sin(angle), centred)
    return tangent * b.scalar_operand(sigma, dtype) + b.scalar_operand(median, dtype)


def _geometric(b: LinalgBuilder, stream: RandomStream, p: Number, **_: object) -> ScalarExpr:
    """Draw the number of trials until the first success; integer results use f64."""
    dtype = compute_dtype(b.result.dtype) if info(b.result.dtype).kind == "float" else "f64"
    trials = e.log(stream.open_uniform(dtype)) / e.log1p(-b.scalar_operand(p, dtype))
    return e.maximum(e.ceil(trials), 1)  # a p that rounds to 1 gives a quotient of 0


def _is_probability(p: ScalarExpr) -> ScalarExpr:
    return (p >= 0) & (p <= 1)


def _bernoulli(
    b: LinalgBuilder,
    stream: RandomStream,
    p: Number | None = None,
    self: Number | None = None,
    **_: object,
) -> ScalarExpr:
    chance = self if p is None else p
    assert chance is not None
    probability = b.scalar_operand(chance, "f64")
    return (stream.uniform("f32").to("f64") < probability).to(b.result.dtype)


def _exponential(
    b: LinalgBuilder, stream: RandomStream, lambd: Number = 1.0, **_: object
) -> ScalarExpr:
    """Draw from (0, inf).

    PyTorch documents that 0 is not drawn, so an underflow becomes the smallest number.
    """
    token = b.result.dtype
    dtype = compute_dtype(token)
    rate = b.scalar_operand(lambd, dtype)
    drawn = -e.log1p(-stream.open_uniform(dtype)) / rate
    smallest = next_after(b.constant(0, token), math.inf).to(dtype)
    return e.where(rate.eq(math.inf), 0, e.maximum(drawn, smallest))


def _integers(
    b: LinalgBuilder,
    stream: RandomStream,
    low: Number = 0,
    high: Number | None = None,
    from_: Number | None = None,
    to: Number | None = None,
    **_: object,
) -> ScalarExpr:
    """Draw integers from [low, high); round down to the dtype so that ``high`` is not reached."""
    low = low if from_ is None else from_
    high = high if to is None else to
    token = b.result.dtype
    if high is None:
        high = low if low == _LOWEST else _unbounded(token)  # a span of 0 represents all of i64
    first = b.scalar_operand(low, "i64")
    span = b.scalar_operand(high, "i64") - first
    bits = stream.long_word()
    whole = span.eq(0)
    drawn = e.where(whole, bits, e.apply("arith.remui", bits, e.where(whole, 1, span))) + first
    if info(token).kind != "float" or (_is_exact(low, token) and _is_exact(high, token)):
        return drawn
    return e.maximum(round_down(drawn, token), round_up(first, token))


_LOWEST = -(2**63)


def _unbounded(token: str) -> int:
    """Return the end of ``random_()``: one more than the largest exactly counted integer."""
    facts = info(token)
    return 2**facts.digits + (facts.kind == "float")


def _is_exact(bound: Number, token: str) -> bool:
    """Whether a constant bound is known and the dtype holds all integers up to it."""
    return isinstance(bound, int) and abs(bound) <= _unbounded(token)


_random("aten::uniform aten::rand aten::rand_like", "random_uniform", _uniform)
_random(
    "aten::normal_functional aten::randn aten::randn_like aten::normal.float_float",
    "random_normal",
    _normal,
)
_random(
    "aten::normal.Tensor_float aten::normal.float_Tensor aten::normal.Tensor_Tensor",
    "random_normal_tensor",
    _normal,
    inputs=("mean", "std"),
    demands={"std": lambda std: std >= 0},
)
_random("aten::bernoulli.p", "random_bernoulli_p", _bernoulli, ALL, tolerance=EXACT)
_random(
    "aten::bernoulli",
    "random_bernoulli",
    _bernoulli,
    FLOATS,
    inputs=("self",),
    tolerance=EXACT,
    demands={"self": _is_probability},
)
_random(
    "aten::bernoulli.Tensor",
    "random_bernoulli_tensor",
    _bernoulli,
    NUMBERS + BOOL,
    inputs=("p",),
    tolerance=EXACT,
    demands={"p": _is_probability},
)
_random("aten::exponential", "random_exponential", _exponential)
_random("aten::log_normal", "random_log_normal", _log_normal)
_random("aten::cauchy", "random_cauchy", _cauchy)
_random("aten::geometric", "random_geometric", _geometric, NUMBERS)
_random(
    "aten::random aten::random.to aten::random.from aten::randint aten::randint.low"
    " aten::randint_like aten::randint_like.low_dtype",
    "random_integers",
    _integers,
    ALL,
    tolerance=EXACT,
)


@lowering("aten::native_dropout", FLOATS, "random_dropout", EXACT)
def _native_dropout(
    b: LinalgBuilder,
    input: StridedValue,
    p: Number,
    train: bool | None,
    seed: ScalarExpr,
    offset: ScalarExpr,
) -> tuple[StridedValue, StridedValue]:
    """Return the scaled input and the mask of kept elements."""
    mask_type = b.result_type(1)
    if train is False:
        return input, b.full(1, mask_type.dtype, mask_type.shape)
    dtype = compute_dtype(input.dtype)

    def body(x: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr]:
        keep = b.constant(1.0, "f64") - b.scalar_operand(p, "f64")
        scale = e.where(keep.eq(0.0), 0.0, 1.0 / keep).to(dtype)
        stream = RandomStream(seed, offset, element_index(b, input.shape))
        draw = stream.uniform("f32").to("f64")
        kept = draw < keep
        return (x.to(dtype) * kept.to(dtype) * scale).to(input.dtype), kept

    scaled, kept = b.pointwise_all(body, [input], [b.result, mask_type])
    return scaled, kept


@lowering("aten::native_dropout_backward", FLOATS + BOOL, "dropout_backward")
def _native_dropout_backward(
    b: LinalgBuilder, grad_output: StridedValue, mask: StridedValue, scale: Number
) -> StridedValue:
    dtype = compute_dtype(b.result.dtype)

    def body(g: ScalarExpr, m: ScalarExpr) -> ScalarExpr:
        return g.to(dtype) * m.to(dtype) * b.scalar_operand(scale, dtype)

    return b.pointwise(body, [grad_output, mask], b.result)
