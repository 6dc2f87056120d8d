"""Accuracy and special values of the elementary functions, against double precision and C."""

from __future__ import annotations

import math

import numpy as np
import pytest

from machine.machine_programs import MapProgram

ULPS = {  # largest error seen to be allowed, in units in the last place of float32
    "EXP": 1.5,
    "EXPM1": 1.0,
    "EXP2": 1.5,
    "LOG": 1.5,
    "LOG1P": 1.0,
    "LOG2": 1.0,
    "LOG10": 1.0,
    "TANH": 2.5,
    "ERF": 1.5,
    "SIN": 1.0,
    "COS": 1.0,
    "SQRT": 0.51,
    "RSQRT": 1.5,
    "RCP": 0.51,
    "CBRT": 1.5,
    "TAN": 1.5,
    "ASIN": 1.5,
    "ACOS": 1.5,
    "ATAN": 1.5,
    "SINH": 2.5,
    "COSH": 1.5,
    "ASINH": 2.5,
    "ACOSH": 2.5,
    "ATANH": 2.5,
    "ERFC": 4.0,
    "FLOOR": 0.0,
    "CEIL": 0.0,
    "ROUND": 0.0,
    "TRUNC": 0.0,
}
DOMAIN = {
    "EXP": (-104, 89), "EXP2": (-150, 128), "EXPM1": (-20, 89), "LOG1P": (-0.999999, 1e4),
    "ASIN": (-1, 1), "ACOS": (-1, 1), "ATANH": (-0.999, 0.999), "ACOSH": (1, 1e4),
    "SIN": (-1000, 1000), "COS": (-1000, 1000), "TAN": (-100, 100), "SINH": (-89, 89),
    "COSH": (-89, 89), "ERFC": (-4, 10), "ERF": (-5, 5), "TANH": (-10, 10),
}  # fmt: skip
POSITIVE = {"LOG", "LOG2", "LOG10", "SQRT", "RSQRT"}


def reference(name: str, x: np.ndarray) -> np.ndarray:
    functions = {
        "RSQRT": lambda v: 1 / np.sqrt(v),
        "RCP": lambda v: 1 / v,
        "ROUND": np.rint,
        "CBRT": np.cbrt,
        "ASIN": np.arcsin,
        "ACOS": np.arccos,
        "ATAN": np.arctan,
        "ASINH": np.arcsinh,
        "ACOSH": np.arccosh,
        "ATANH": np.arctanh,
        "ERF": np.vectorize(math.erf),
        "ERFC": np.vectorize(math.erfc),
    }
    return np.asarray(functions.get(name, getattr(np, name.lower(), None))(x.astype(np.float64)))


def apply(machine, name, token, x):
    program = MapProgram(
        1, x.size, [(token, "full")], [(token, "full")], [f"V{name}.{token.upper()} v0, v100"]
    )
    return program.run(machine, [x.reshape(1, -1)])[0][0]


def ulps(got: np.ndarray, want: np.ndarray) -> float:
    unit = np.maximum(np.spacing(np.abs(want.astype(np.float32))).astype(np.float64), 2.0**-149)
    return float(np.max(np.abs(got.astype(np.float64) - want) / unit))


def points(name: str) -> np.ndarray:
    rng = np.random.default_rng(5)
    low, high = DOMAIN.get(name, (-1e4, 1e4))
    x = rng.uniform(low, high, 20001)
    small = rng.standard_normal(5000) * 10.0 ** rng.uniform(-30, 0, 5000)
    if name in POSITIVE:
        x = np.concatenate(
            [np.abs(x), np.abs(small), 10.0 ** rng.uniform(-44, 38, 5000), 1 + small[:2000] * 1e-3]
        )
    elif name != "ACOSH":
        x = np.concatenate([x, small[np.abs(small) < 0.99]])
    return x.astype(np.float32)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ULPS)
def test_float32_accuracy(fast, name):
    x = points(name)
    want = reference(name, x)
    keep = np.abs(want) < 3e38
    got = apply(fast, name, "f32", x)
    assert ulps(got[keep], want[keep]) <= ULPS[name]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ULPS)
@pytest.mark.parametrize("token", ["f32", "f64"])
def test_special_values(fast, name, token):
    x = np.array(
        [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0, -2.0, 89.5, -110.0, 1e-45, 1e38],
        np.float32,
    )
    x = x.astype(np.float64 if token == "f64" else np.float32)
    got, want = apply(fast, name, token, x), reference(name, x).astype(x.dtype)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    finite = np.isfinite(want)
    np.testing.assert_allclose(
        got[finite], want[finite], rtol=1e-6 if token == "f32" else 1e-13, atol=1e-44
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("token", ["f32", "f64"])
def test_power(fast, token):
    edges = [
        0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 16777217.0,
        16777215.0, 1e20,
    ]  # fmt: skip
    x, y = (v.ravel() for v in np.meshgrid(edges, edges))
    rng = np.random.default_rng(6)
    x = np.concatenate([x, rng.uniform(0, 10, 5000), -rng.uniform(0, 4, 100)])
    y = np.concatenate([y, rng.uniform(-20, 20, 5000), rng.integers(-9, 9, 100)])
    x, y = x.astype(token.replace("f", "float")), y.astype(token.replace("f", "float"))
    program = MapProgram(
        1, x.size, [(token, "full")] * 2, [(token, "full")], [f"VPOW.{token.upper()} v0, v1, v100"]
    )
    got = program.run(fast, [x.reshape(1, -1), y.reshape(1, -1)])[0][0]
    want = np.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
    np.testing.assert_allclose(
        got, want, rtol=2e-7 if token == "f32" else 1e-13, atol=1e-44, equal_nan=True
    )
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


def test_large_angles(fast):
    x = np.array([1e6, 1e7, -3e8, 1e20, 3.4e38], np.float32)
    np.testing.assert_allclose(
        apply(fast, "SIN", "f32", x), np.sin(x.astype(np.float64)), rtol=1e-6
    )
    np.testing.assert_allclose(
        apply(fast, "COS", "f32", x), np.cos(x.astype(np.float64)), rtol=1e-6
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["EXP", "LOG", "TANH", "ERF", "SQRT"])
def test_halves_round_once(fast, name):
    x = np.linspace(0.1, 5, 333).astype(np.float16)
    want = reference(name, x).astype(np.float32).astype(np.float16)
    got = apply(fast, name, "f16", x)
    assert np.max(np.abs(got.view(np.int16).astype(int) - want.view(np.int16))) <= 1
    assert np.mean(got == want) > 0.99
