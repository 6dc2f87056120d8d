"""Map bodies: the text of each kind of element operation, and its value on the machine."""

import math

import numpy as np
import pytest

from ftm_backend.ir.linalg.body_builder import constant
from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.map_body_builder import ElementError

REALS = [0.5, -1.25, 3.0, -0.0, math.inf, -math.inf, math.nan, 2.5, -2.5, 1e-3]
PAIRS = [(a, b) for a in REALS[:8] for b in REALS[:8]]
LEFT, RIGHT = [a for a, _ in PAIRS], [b for _, b in PAIRS]
INTS = [0, 1, -1, 7, -7, 100, -128, 127]
INT_PAIRS = [(a, b) for a in INTS for b in INTS]
INT_LEFT, INT_RIGHT = [a for a, _ in INT_PAIRS], [b for _, b in INT_PAIRS]


def operation(name, result, predicate=None):
    """A body that applies one operation to all arguments."""
    return lambda v: Node(name, result, tuple(v), predicate)


def f32(name, *operands):
    return Node(name, "f32", operands)


def lines(text):
    body = text[text.index("@map") : text.index("@endmap")].splitlines()[1:-1]
    return [line.strip() for line in body]


FLOAT_OPERATIONS = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply,
    "arith.divf": np.divide, "arith.maximumf": np.maximum, "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax, "arith.minnumf": np.fmin, "arith.remf": np.fmod,
    "math.copysign": np.copysign, "math.atan2": np.arctan2, "math.powf": np.power,
}  # fmt: skip


@pytest.mark.parametrize("name", FLOAT_OPERATIONS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_float_operations_of_two(lab, name, dtype):
    text, got = lab.elements(operation(name, dtype), dtype, (dtype, LEFT), (dtype, RIGHT))
    with np.errstate(all="ignore"):
        expected = FLOAT_OPERATIONS[name](*(np.asarray(x, got.dtype) for x in (LEFT, RIGHT)))
    np.testing.assert_allclose(got.ravel(), expected, rtol=1e-5 if dtype == "f32" else 1e-12)
    assert len(lines(text)) == 1


UNARY = {
    "arith.negf": np.negative,
    "math.absf": np.abs,
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.expm1": np.expm1,
    "math.log": np.log,
    "math.log1p": np.log1p,
    "math.log2": np.log2,
    "math.log10": np.log10,
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda x: 1 / np.sqrt(x),
    "math.cbrt": np.cbrt,
    "math.sin": np.sin,
    "math.cos": np.cos,
    "math.tan": np.tan,
    "math.asin": np.arcsin,
    "math.acos": np.arccos,
    "math.atan": np.arctan,
    "math.sinh": np.sinh,
    "math.cosh": np.cosh,
    "math.tanh": np.tanh,
    "math.asinh": np.arcsinh,
    "math.acosh": np.arccosh,
    "math.atanh": np.arctanh,
    "math.erf": np.vectorize(math.erf),
    "math.erfc": np.vectorize(math.erfc),
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.roundeven": np.rint,
    "math.trunc": np.trunc,
    "math.round": lambda x: np.trunc(x + np.copysign(0.5, x)),
}


@pytest.mark.parametrize("name", UNARY)
def test_float_functions(lab, name):
    values = [*REALS, 0.75, -0.5, 9.0]
    _, got = lab.elements(operation(name, "f64"), "f64", ("f64", values))
    with np.errstate(all="ignore"):
        expected = UNARY[name](np.asarray(values))
    np.testing.assert_allclose(got.ravel(), expected, rtol=1e-7, atol=1e-12)


def test_round_takes_halves_away_from_zero_and_only_halves(lab):
    values = [0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, -0.49999997, 8388609.0, math.inf, -math.inf]
    _, got = lab.elements(operation("math.round", "f32"), "f32", ("f32", values))
    np.testing.assert_array_equal(
        got.ravel(), [1, -1, 2, 3, -3, 0, 0, 8388609.0, math.inf, -math.inf]
    )


COMPARISONS = {  # cmpf predicate: what it says of (a, b, whether either is NaN)
    0: lambda a, b, n: False,
    1: lambda a, b, n: not n and a == b,
    2: lambda a, b, n: a > b,
    3: lambda a, b, n: a >= b,
    4: lambda a, b, n: a < b,
    5: lambda a, b, n: a <= b,
    6: lambda a, b, n: not n and a != b,
    7: lambda a, b, n: not n,
    8: lambda a, b, n: n or a == b,
    9: lambda a, b, n: n or a > b,
    10: lambda a, b, n: n or a >= b,
    11: lambda a, b, n: n or a < b,
    12: lambda a, b, n: n or a <= b,
    13: lambda a, b, n: n or a != b,
    14: lambda a, b, n: n,
    15: lambda a, b, n: True,
}


@pytest.mark.parametrize("number", COMPARISONS)
def test_float_comparisons_with_nan(lab, number):
    _, got = lab.elements(
        operation("arith.cmpf", "i1", predicate=number), "i1", ("f32", LEFT), ("f32", RIGHT)
    )
    expected = [COMPARISONS[number](a, b, math.isnan(a) or math.isnan(b)) for a, b in PAIRS]
    np.testing.assert_array_equal(got.ravel().astype(bool), expected)


@pytest.mark.parametrize("dtype", ["i64", "i32", "i16", "i8", "i1"])
@pytest.mark.parametrize("number", range(10))
def test_integer_comparisons(lab, dtype, number):
    bits = int(dtype[1:])
    a, b = (np.asarray(x) & 1 if bits == 1 else np.asarray(x) for x in (INT_LEFT, INT_RIGHT))
    _, got = lab.elements(
        operation("arith.cmpi", "i1", predicate=number), "i1", (dtype, a), (dtype, b)
    )
    if number >= 6:
        x, y = (
            a % 2**bits if bits < 64 else a.astype(np.uint64),
            b % 2**bits if bits < 64 else b.astype(np.uint64),
        )
    else:
        x, y = (-a, -b) if bits == 1 else (a, b)
    relation = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal][
        number if number < 6 else number - 4
    ]
    np.testing.assert_array_equal(got.ravel().astype(bool), relation(x, y))


def _trunc_div(a, b):
    return 0 if b == 0 else abs(a) // abs(b) * (1 if a * b > 0 else -1)


INTEGER_OPERATIONS = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": _trunc_div,
    "arith.remsi": lambda a, b: a - b * _trunc_div(a, b) if b else 0,
    "arith.floordivsi": lambda a, b: a // b if b else 0,
    "arith.ceildivsi": lambda a, b: -(-a // b) if b else 0,
    "arith.maxsi": max,
    "arith.minsi": min,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
}
UNSIGNED_OPERATIONS = {
    "arith.divui": lambda a, b: a // b,
    "arith.remui": lambda a, b: a % b,
    "arith.maxui": max,
    "arith.minui": min,
}


def _wrapped(value, bits):
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


@pytest.mark.parametrize("dtype", ["i64", "i32", "i16", "i8"])
@pytest.mark.parametrize("name", [*INTEGER_OPERATIONS, *UNSIGNED_OPERATIONS])
def test_integer_operations(lab, name, dtype):
    bits = int(dtype[1:])
    pairs = [*INT_PAIRS, (2 ** (bits - 1) - 1, -1), (-(2 ** (bits - 1)), 3)]
    if name in UNSIGNED_OPERATIONS:
        pairs = [(a, b) for a, b in pairs if b != 0]
        expected = [
            _wrapped(UNSIGNED_OPERATIONS[name](a % 2**bits, b % 2**bits), bits) for a, b in pairs
        ]
    else:
        expected = [_wrapped(INTEGER_OPERATIONS[name](a, b), bits) for a, b in pairs]
        if "div" in name or "rem" in name:
            keep = [b != 0 and not (a == -(2 ** (bits - 1)) and b == -1) for a, b in pairs]
            pairs = [p for p, k in zip(pairs, keep, strict=True) if k]
            expected = [e for e, k in zip(expected, keep, strict=True) if k]
    _, got = lab.elements(
        operation(name, dtype),
        dtype,
        (dtype, [a for a, _ in pairs]),
        (dtype, [b for _, b in pairs]),
    )
    np.testing.assert_array_equal(got.ravel(), expected)


CONVERSIONS = [  # operation, from, to, values, expected
    ("arith.extui", "i8", "i32", [-1, 127, -128], [255, 127, 128]),
    ("arith.extui", "i16", "i64", [-1, 5], [65535, 5]),
    ("arith.extui", "i32", "i64", [-1, 5], [2**32 - 1, 5]),
    ("arith.extui", "i1", "i32", [1, 0], [1, 0]),
    ("arith.extsi", "i8", "i64", [-1, 127], [-1, 127]),
    ("arith.extsi", "i1", "i32", [1, 0], [-1, 0]),
    ("arith.trunci", "i64", "i8", [257, -1], [1, -1]),
    ("arith.trunci", "i32", "i1", [2, 3], [0, 1]),
    ("arith.sitofp", "i32", "f32", [-7, 7], [-7.0, 7.0]),
    ("arith.sitofp", "i1", "f32", [1, 0], [-1.0, 0.0]),
    ("arith.uitofp", "i1", "f32", [1, 0], [1.0, 0.0]),
    ("arith.uitofp", "i8", "f32", [-1, 5], [255.0, 5.0]),
    ("arith.uitofp", "i32", "f64", [-1, 5], [2.0**32 - 1, 5.0]),
    ("arith.uitofp", "i64", "f64", [-1, 5, -(2**63)], [2.0**64, 5.0, 2.0**63]),
    ("arith.fptosi", "f32", "i64", [1.9, -1.9], [1, -1]),
    ("arith.fptoui", "f32", "i8", [200.0, 3.7], [-56, 3]),
    ("arith.extf", "f32", "f64", [1.5], [1.5]),
    ("arith.truncf", "f64", "f32", [1e-50, 1.1], [0.0, np.float32(1.1)]),
    ("arith.bitcast", "f32", "i32", [1.0], [0x3F800000]),
]


@pytest.mark.parametrize(("name", "source", "target", "values", "expected"), CONVERSIONS)
def test_conversions(lab, name, source, target, values, expected):
    _, got = lab.elements(operation(name, target), target, (source, values))
    np.testing.assert_array_equal(got.ravel(), np.asarray(expected, dtype=got.dtype))


def test_selection_and_booleans(lab):
    def body(v):
        return f32("arith.select", Node("arith.andi", "i1", (v[0], v[1])), v[2], v[3])

    text, got = lab.elements(
        body, "f32", ("i1", [1, 1, 0, 0]), ("i1", [1, 0, 1, 0]), ("f32", [1] * 4), ("f32", [2] * 4)
    )
    np.testing.assert_array_equal(got.ravel(), [1, 2, 2, 2])
    assert lines(text) == ["VAND.B1 v0, v1, v4", "VSEL.F32 v4, v2, v3, v5"]


def test_a_product_and_a_sum_are_fused_once(lab):
    def body(v):
        return f32("arith.addf", f32("arith.mulf", v[0], v[1]), v[2])

    text, got = lab.elements(body, "f32", ("f32", [2, 3]), ("f32", [5, 7]), ("f32", [1, -1]))
    np.testing.assert_array_equal(got.ravel(), [11, 20])
    assert [line.split()[0] for line in lines(text)] == ["VFMA.F32"]


def test_a_product_that_is_needed_twice_is_not_fused(lab):
    def body(v):
        product = f32("arith.mulf", v[0], v[1])
        return f32("arith.addf", product, f32("math.exp", product))

    text, _ = lab.elements(body, "f32", ("f32", [2, 3]), ("f32", [0.5, 0.25]))
    assert [line.split()[0] for line in lines(text)] == ["VMUL.F32", "VEXP.F32", "VADD.F32"]


def test_the_difference_of_equal_products_is_exactly_zero(lab):
    def body(v):
        return f32("arith.subf", f32("arith.mulf", v[0], v[1]), f32("arith.mulf", v[1], v[0]))

    _, got = lab.elements(body, "f32", ("f32", [0.1, 1e10]), ("f32", [0.3, 1.1]))
    np.testing.assert_array_equal(got.ravel(), [0, 0])


def test_a_scalar_is_rounded_by_its_use_and_constants_are_immediates(lab):
    def body(v):
        value, scalar = v
        return f32(
            "arith.mulf",
            f32("arith.maximumf", value, constant(0.1, "f32")),
            f32("arith.truncf", scalar),
        )

    text, got = lab.elements(body, "f32", ("f32", [1, -1]), scalars=[("f64", 0.3)])
    assert lines(text) == ["VMAX.F32 v0, 0.1, v1", "VMUL.F32 v1, s0, v2"]
    np.testing.assert_array_equal(got.ravel(), np.float32([1, 0.1]) * np.float32(0.3))


def test_half_types_compute_in_their_own_type(lab):
    text, got = lab.elements(
        operation("arith.addf", "f16"), "f16", ("f16", [1.0, 2048.0]), ("f16", [0.0004, 1.0])
    )
    assert lines(text) == ["VADD.F16 v0, v1, v2"]
    np.testing.assert_array_equal(
        got.ravel(), np.float16([1.0, 2048.0]) + np.float16([0.0004, 1.0])
    )


def test_equal_operations_are_written_once_and_dead_ones_not_at_all(lab):
    def body(v):
        f32("math.sin", v[0])
        return f32("arith.addf", f32("math.exp", v[0]), f32("math.exp", v[0]))

    text, _ = lab.elements(body, "f32", ("f32", [1, 2]))
    assert lines(text) == ["VEXP.F32 v0, v1", "VADD.F32 v1, v1, v2"]


def test_a_constant_result_is_moved_into_the_tile(lab):
    text, got = lab.elements(lambda v: constant(-math.inf, "f32"), "f32", ("f32", [1, 2]))
    assert lines(text) == ["VMOV.F32 -inf, v1"]
    np.testing.assert_array_equal(got.ravel(), [-math.inf] * 2)


def test_an_unknown_operation_is_named_with_its_place(lab):
    with pytest.raises(ElementError, match=r"(?s)math\.ctlz.*@kernel_0"):
        lab.elements(operation("math.ctlz", "i32"), "i32", ("i32", [1]))
