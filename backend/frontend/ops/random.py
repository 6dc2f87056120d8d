"""Random ops: Philox words by element number, so that bits do not depend on fusion or tiling.

Element i of an op takes word i, or words 2i and 2i+1 where 32 bits are too few; seed and offset come with
the op as runtime scalars.
"""

from __future__ import annotations

import math
from typing import Any

from ftm_backend.frontend import elements as e
from ftm_backend.frontend.dtypes import ALL, BOOL, FLOATS, NUMBERS, compute_dtype, info
from ftm_backend.frontend.ops.record import EXACT, TOLERANCE, lowering
from ftm_backend.frontend.strided import contiguous_strides


def _element_number(b: Any, shape: tuple[int, ...]) -> Any:
    """In a body: the row-major number of the element being computed."""
    number = b.constant(0, "i64")
    for k, stride in enumerate(contiguous_strides(shape)):
        if shape[k] > 1:
            number = b.index(k) * stride + number
    return number


def _word(b: Any, number: Any, seed: Any, offset: Any) -> Any:
    return b.emitter.emit("ftm.philox", "i32", number, seed, offset)


def _shifted(word: Any, bits: int) -> Any:
    """Unsigned ``word >> bits``; bits of at least 1 make it non-negative."""
    return e.apply("arith.shrui", word, word.const(bits))


def _unit(b: Any, number: Any, seed: Any, offset: Any, dtype: str) -> Any:
    """Uniform in [0, 1): 24 bits for f32, 53 for f64."""
    if dtype != "f64":
        return _shifted(_word(b, number, seed, offset), 8).to("f32") * 2.0**-24
    high = _shifted(_word(b, number * 2, seed, offset), 5).to("f64")
    low = _shifted(_word(b, number * 2 + 1, seed, offset), 6).to("f64")
    return (high * 2.0**26 + low) * 2.0**-53


def _random(names: str, family: str, element: Any, dtypes: Any = FLOATS, inputs: tuple[str, ...] = (),
            tolerance: Any = TOLERANCE) -> None:
    """A record whose element is ``element(b, unit, number, seed, offset, **arguments)``."""

    @lowering(names, dtypes, family, tolerance)
    def lower(b: Any, seed: Any, offset: Any, **arguments: Any) -> Any:
        from ftm_backend.frontend.builder import Input, Output

        result = b.result
        values = {k: v for k, v in arguments.items() if k in inputs and v is not None and not isinstance(v, e.Elem)}
        rest = {k: v for k, v in arguments.items() if k not in values}
        rank = len(result.shape)

        def body(*elems: Any) -> Any:
            number = _element_number(b, result.shape)
            made = element(b, number, seed, offset, **dict(zip(values, elems, strict=True)), **rest)
            return made.to(result.dtype)

        reading = [Input(v, range(rank - v.rank, rank)) for v in values.values()]
        return b.generic(result.shape, reading, [Output(result.dtype, result.shape, range(rank))], body)[0]


def _uniform(b: Any, number: Any, seed: Any, offset: Any, from_: Any = 0.0, to: Any = 1.0, **_: Any) -> Any:
    dtype = compute_dtype(b.result.dtype)
    low, high = b.inline(from_, dtype), b.inline(to, dtype)
    return low + _unit(b, number, seed, offset, dtype) * (high - low)


def _normal(b: Any, number: Any, seed: Any, offset: Any, mean: Any = 0.0, std: Any = 1.0, **_: Any) -> Any:
    """Box-Muller, one pair of words for each element."""
    dtype = compute_dtype(b.result.dtype)
    first = (_shifted(_word(b, number * 2, seed, offset), 8) + 1).to(dtype) * 2.0**-24
    second = _shifted(_word(b, number * 2 + 1, seed, offset), 8).to(dtype) * 2.0**-24
    z = e.sqrt(e.log(first) * -2) * e.cos(second * (2 * math.pi))
    return z * _parameter(b, std, dtype) + _parameter(b, mean, dtype)


def _parameter(b: Any, value: Any, dtype: str) -> Any:
    return value.to(dtype) if isinstance(value, e.Elem) else b.constant(value, dtype)


def _bernoulli(b: Any, number: Any, seed: Any, offset: Any, p: Any = None, self: Any = None, **_: Any) -> Any:
    probability = _parameter(b, self if p is None else p, "f64")
    return (_unit(b, number, seed, offset, "f32").to("f64") < probability).to(b.result.dtype)


def _exponential(b: Any, number: Any, seed: Any, offset: Any, lambd: Any = 1.0, **_: Any) -> Any:
    dtype = compute_dtype(b.result.dtype)
    return -e.log1p(-_unit(b, number, seed, offset, dtype)) / _parameter(b, lambd, dtype)


def _integers(b: Any, number: Any, seed: Any, offset: Any, low: Any = 0, high: Any = None, from_: Any = None, to: Any = None,
              **_: Any) -> Any:
    """Uniform integers in [low, high); random without bounds takes all that the dtype counts exactly."""
    low = low if from_ is None else from_
    high = high if to is None else to
    if high is None:
        facts = info(b.result.dtype)
        exact = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "i1": 1}
        high = 2 ** exact[facts.token] + (facts.kind == "float") if facts.token in exact else 2 ** (facts.bits - facts.signed)
        low = 0
    first = b.inline(low, "i64")
    span = b.inline(high, "i64") - first
    low_word = _word(b, number * 2, seed, offset)
    high_word = _word(b, number * 2 + 1, seed, offset)
    bits = b.emitter.emit("arith.extui", "i64", low_word) | (b.emitter.emit("arith.extsi", "i64", high_word) << 32)
    return e.apply("arith.remui", bits, span) + first


_random("aten::uniform aten::rand aten::rand_like", "random_uniform", _uniform)
_random("aten::normal_functional aten::randn aten::randn_like aten::normal.float_float", "random_normal", _normal)
_random("aten::normal.Tensor_float aten::normal.float_Tensor aten::normal.Tensor_Tensor", "random_normal_tensor", _normal,
        inputs=("mean", "std"))
_random("aten::bernoulli.p", "random_bernoulli_p", _bernoulli, ALL, tolerance=EXACT)
_random("aten::bernoulli", "random_bernoulli", _bernoulli, FLOATS, inputs=("self",), tolerance=EXACT)
_random("aten::bernoulli.Tensor", "random_bernoulli_tensor", _bernoulli, NUMBERS + BOOL, inputs=("p",), tolerance=EXACT)
_random("aten::exponential", "random_exponential", _exponential)
_random("aten::random aten::random.to aten::random.from aten::randint aten::randint.low aten::randint_like "
        "aten::randint_like.low_dtype", "random_integers", _integers, ALL, tolerance=EXACT)


@lowering("aten::native_dropout", FLOATS, "random_dropout", EXACT)
def _native_dropout(b: Any, input: Any, p: float, train: bool | None, seed: Any, offset: Any) -> Any:
    """(input scaled where kept, mask of what is kept)."""
    mask_type = b.results[1]
    if train is False:
        return input, b.full(1, mask_type.dtype, mask_type.shape)
    dtype, keep = compute_dtype(input.dtype), 1.0 - p
    scale = 1 / keep if keep else 0.0

    def body(x: Any) -> Any:
        unit = _unit(b, _element_number(b, input.shape), seed, offset, "f32").to("f64")
        kept = unit < keep
        return (x.to(dtype) * kept.to(dtype) * scale).to(input.dtype), kept

    return b.pointwise(body, [input], b.result, mask_type)


@lowering("aten::native_dropout_backward", FLOATS + BOOL, "dropout_backward")
def _native_dropout_backward(b: Any, grad_output: Any, mask: Any, scale: float) -> Any:
    dtype = compute_dtype(b.result.dtype)
    return b.pointwise(lambda g, m: (g.to(dtype) * m.to(dtype) * scale).to(b.result.dtype), [grad_output, mask], b.result)
