"""Every map operation on every type against numpy: vectors, scalar operands, NaN, infinities, odd
lengths."""

from __future__ import annotations

import numpy as np
import pytest

from machine.machine_programs import NUMPY, MapProgram, from_bf16, run_text, suffix, to_bf16

FLOATS = ["f64", "f32", "f16", "bf16"]
INTEGERS = ["i64", "i32", "i16", "i8", "u8"]
EDGES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 3.0, 1e-40, 7.25, 100.0]
SIZE = 67


def sample(token: str, seed: int) -> np.ndarray:
    """SIZE values in the element's stored form: edge cases first, then random ones."""
    rng = np.random.default_rng(seed)
    if token == "i1":
        return rng.integers(0, 2, SIZE).astype(bool)
    if token in INTEGERS:
        dtype = NUMPY[token]
        info = np.iinfo(dtype)
        edges = [0, 1, 2, 3, info.min, info.max, info.max - 1, 7]
        values = np.array(
            [*edges, *rng.integers(-100 if info.min < 0 else 0, 100, SIZE - len(edges))]
        ).astype(dtype)
    else:
        values = np.array([*EDGES, *rng.standard_normal(SIZE - len(EDGES)) * 3])
        with np.errstate(over="ignore"):
            values = (
                to_bf16(values.astype(np.float32))
                if token == "bf16"
                else values.astype(NUMPY[token])
            )
    rng.shuffle(values)
    return values


def decode(token: str, stored: np.ndarray) -> np.ndarray:
    """Stored elements as the type that the operation computes in."""
    if token == "bf16":
        return from_bf16(stored)
    return stored.astype(np.float32) if token == "f16" else stored


def encode(token: str, values: np.ndarray) -> np.ndarray:
    """A computed result in stored form."""
    with np.errstate(over="ignore", invalid="ignore"):
        return to_bf16(values) if token == "bf16" else values.astype(NUMPY[token])


def same(token: str, got: np.ndarray, want: np.ndarray, tolerance: float = 0.0) -> None:
    got, want = decode(token, got), decode(token, want)
    if token in FLOATS:
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * 1e-3, equal_nan=True)
        zeros = (want == 0) & (tolerance == 0)
        np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))
    else:
        np.testing.assert_array_equal(got, want)


def truncated_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "f":
        return a / b
    wide_a, wide_b = a.astype(object), b.astype(object)
    return np.array(
        [
            0 if y == 0 else (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)
            for x, y in zip(wide_a, wide_b, strict=True)
        ],
        dtype=object,
    )


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "f":
        return np.fmod(a, b)
    return np.array(
        [
            0 if y == 0 else (abs(x) % abs(y)) * (1 if x >= 0 else -1)
            for x, y in zip(a.astype(object), b.astype(object), strict=True)
        ],
        dtype=object,
    )


def wrapped(token: str, values: np.ndarray) -> np.ndarray:
    """Python integers reduced to the type, as two's complement."""
    bits = 8 * NUMPY[token].itemsize
    low = [int(v) & ((1 << bits) - 1) for v in values]
    if token != "u8":
        low = [v - (1 << bits) if v >> (bits - 1) else v for v in low]
    return np.array(low, NUMPY[token])


BINARY = {
    "VADD": lambda a, b: a + b,
    "VSUB": lambda a, b: a - b,
    "VMUL": lambda a, b: a * b,
    "VDIV": truncated_divide,
    "VREM": remainder,
    "VMIN": np.minimum,
    "VMAX": np.maximum,
}
UNARY = {"VNEG": lambda a: -a, "VABS": np.abs, "VMOV": lambda a: a}
COMPARES = {
    "VCMPEQ": np.equal, "VCMPNE": np.not_equal, "VCMPLT": np.less, "VCMPLE": np.less_equal,
    "VCMPGT": np.greater, "VCMPGE": np.greater_equal,
}  # fmt: skip


def run_binary(machine, name, token, result, a, b):
    program = MapProgram(
        1,
        SIZE,
        [(token, "full"), (token, "full")],
        [(result, "full")],
        [f"{name}.{suffix(token)} v0, v1, v100"],
    )
    return program.run(machine, [a.reshape(1, -1), b.reshape(1, -1)])[0][0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("token", FLOATS + INTEGERS)
@pytest.mark.parametrize("name", BINARY)
def test_binary(fast, name, token):
    a, b = sample(token, 1), sample(token, 2)
    got = run_binary(fast, name, token, token, a, b)
    x, y = decode(token, a), decode(token, b)
    if token in INTEGERS:
        want = wrapped(
            token,
            BINARY[name](x.astype(object), y.astype(object))
            if name not in ("VDIV", "VREM")
            else BINARY[name](x, y),
        )
    else:
        want = encode(token, BINARY[name](x, y))
    if name in ("VMIN", "VMAX"):  # which zero wins is not specified
        got, want = (
            np.where(decode(token, got) == 0, np.zeros_like(got), got),
            np.where(decode(token, want) == 0, np.zeros_like(want), want),
        )
    same(token, got, want)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("token", ["f64", "f32", "bf16"])
@pytest.mark.parametrize("name", ["VADD", "VSUB", "VMUL", "VDIV", "VMIN", "VMAX", "VPOW", "VREM"])
@pytest.mark.parametrize("side", ["left", "right", "register", "one", "col"])
def test_scalar_operands(fast, name, token, side):
    a = sample(token, 3)
    functions = {**BINARY, "VPOW": np.power}
    constant = 3.0 if side == "register" else 1.5
    program = MapProgram(
        3,
        SIZE,
        [(token, "full"), (token, "one" if side == "one" else "col")],
        [(token, "full")],
        [
            f"{name}.{suffix(token)} "
            + {
                "left": "1.5, v0",
                "right": "v0, 1.5",
                "register": "v0, r5",
                "one": "v0, v1",
                "col": "v1, v0",
            }[side]
            + ", v100"
        ],
    )
    text = program.text.replace("    DWAITALL", "    SMOV 3, r5\n    DWAITALL", 1)
    x = np.tile(a, (3, 1))
    other = np.array([[1.5]] if side == "one" else [[0.5], [-2.0], [1.5]])
    stored = encode(token, other.astype(np.float32))
    got = run_text(fast, text, [x, stored])[0]
    d = decode(token, x)
    c = decode(token, stored) if side in ("one", "col") else np.asarray(constant, d.dtype)
    want = encode(
        token, functions[name](c, d) if side in ("left", "col") else functions[name](d, c)
    )
    if name in ("VMIN", "VMAX"):
        got, want = (
            np.where(decode(token, got) == 0, np.zeros_like(got), got),
            np.where(decode(token, want) == 0, np.zeros_like(want), want),
        )
    same(
        token,
        got,
        want,
        2e-2 if name == "VPOW" and token == "bf16" else 1e-6 if name == "VPOW" else 0.0,
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("token", FLOATS + INTEGERS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(fast, name, token):
    a = sample(token, 4)
    program = MapProgram(
        1, SIZE, [(token, "full")], [(token, "full")], [f"{name}.{suffix(token)} v0, v100"]
    )
    same(
        token,
        program.run(fast, [a.reshape(1, -1)])[0][0],
        encode(token, UNARY[name](decode(token, a))),
    )


@pytest.mark.parametrize("token", FLOATS + INTEGERS + ["i1"])
@pytest.mark.parametrize("name", COMPARES)
def test_compares(fast, name, token):
    a, b = sample(token, 5), sample(token, 6)
    b[::3] = a[::3]
    got = run_binary(fast, name, token, "i1", a, b)
    np.testing.assert_array_equal(got, COMPARES[name](decode(token, a), decode(token, b)))


@pytest.mark.parametrize("token", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("name", ["VMINN", "VMAXN"])
def test_numbers_win_over_nan(fast, name, token):
    a, b = sample(token, 7), sample(token, 8)
    got = decode(token, run_binary(fast, name, token, token, a, b))
    want = (np.fmin if name == "VMINN" else np.fmax)(decode(token, a), decode(token, b))
    np.testing.assert_array_equal(got, want)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("token", FLOATS + INTEGERS)
def test_multiply_add(fast, token):
    a, b, c = (sample(token, k) for k in (9, 10, 11))
    body = [
        f"VFMA.{suffix(token)} v0, v1, v2, v100",
        f"VFMA.{suffix(token)} v0, 2, v1, v101",
        f"VFMA.{suffix(token)} 3, v0, 5, v102",
    ]
    program = MapProgram(1, SIZE, [(token, "full")] * 3, [(token, "full")] * 3, body)
    got = program.run(fast, [v.reshape(1, -1) for v in (a, b, c)])
    x, y, z = (decode(token, v) for v in (a, b, c))
    wants = [(x, y, z), (x, 2, y), (x, 3, 5)]
    for g, (p, q, r) in zip(got, wants, strict=True):
        if token in INTEGERS:
            same(token, g[0], wrapped(token, p.astype(object) * q + r))
        else:
            exact = p.astype(np.float64) * q + r
            same(
                token,
                g[0],
                encode(token, exact.astype(x.dtype)),
                {"f64": 1e-13, "f32": 1e-6}.get(token, 1e-2),
            )


@pytest.mark.parametrize("token", INTEGERS + ["i1"])
def test_bits(fast, token):
    a, b = sample(token, 12), sample(token, 13)
    s = suffix(token)
    program = MapProgram(
        1,
        SIZE,
        [(token, "full")] * 2,
        [(token, "full")] * 4,
        [
            f"VAND.{s} v0, v1, v100",
            f"VOR.{s} v0, v1, v101",
            f"VXOR.{s} v0, v1, v102",
            f"VNOT.{s} v0, v103",
        ],
    )
    got = program.run(fast, [a.reshape(1, -1), b.reshape(1, -1)])
    for g, want in zip(got, (a & b, a | b, a ^ b, ~a), strict=True):
        np.testing.assert_array_equal(g[0], want)


@pytest.mark.parametrize("token", INTEGERS)
def test_shifts(fast, token):
    a = sample(token, 14)
    bits = 8 * NUMPY[token].itemsize
    counts = np.resize(
        np.array([0, 1, bits - 1, bits, bits + 3 if bits < 64 else 100, 2]), SIZE
    ).astype(NUMPY[token])
    s = suffix(token)
    program = MapProgram(
        1,
        SIZE,
        [(token, "full")] * 2,
        [(token, "full")] * 3,
        [f"VSHL.{s} v0, v1, v100", f"VSHR.{s} v0, v1, v101", f"VSHRU.{s} v0, v1, v102"],
    )
    left, right, logical = (
        g[0] for g in program.run(fast, [a.reshape(1, -1), counts.reshape(1, -1)])
    )
    mask = (1 << bits) - 1
    for k in range(SIZE):
        x, n = int(a[k]), int(counts[k])
        np.testing.assert_array_equal(left[k], wrapped(token, [x << n])[0] if n < bits else 0)
        np.testing.assert_array_equal(right[k], x >> min(n, bits - 1) if token != "u8" else x >> n)
        np.testing.assert_array_equal(logical[k], wrapped(token, [(x & mask) >> n])[0])


@pytest.mark.parametrize("token", FLOATS + INTEGERS + ["i1"])
def test_select(fast, token):
    a, b, m = sample(token, 15), sample(token, 16), sample("i1", 17)
    s = suffix(token)
    zero = {"i1": "0"}.get(token, "0" if token in INTEGERS else "0.0")
    program = MapProgram(
        1,
        SIZE,
        [(token, "full"), (token, "full"), ("i1", "full")],
        [(token, "full")] * 3,
        [
            f"VSEL.{s} v2, v0, v1, v100",
            f"VSEL.{s} v2, v0, {zero}, v101",
            f"VSEL.{s} v2, {zero}, v1, v102",
        ],
    )
    got = program.run(fast, [v.reshape(1, -1) for v in (a, b, m)])
    for g, want in zip(
        got,
        (np.where(m, a, b), np.where(m, a, np.zeros_like(a)), np.where(m, np.zeros_like(b), b)),
        strict=True,
    ):
        np.testing.assert_array_equal(
            g[0].view(f"u{g.itemsize}") if token != "i1" else g[0],
            want.view(f"u{want.itemsize}") if token != "i1" else want,
        )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("source", FLOATS + INTEGERS + ["i1"])
@pytest.mark.parametrize("target", FLOATS + INTEGERS + ["i1"])
def test_conversions(fast, source, target):
    a = sample(source, 18)
    # what a float outside of the range becomes has its own test
    if source in FLOATS and target in INTEGERS:
        values = np.clip(
            np.nan_to_num(decode(source, a), posinf=9, neginf=-9),
            0 if target == "u8" else -100,
            100,
        )
        a = encode(source, values)
    program = MapProgram(
        1,
        SIZE,
        [(source, "full")],
        [(target, "full")],
        [f"VCVT.{suffix(target)}.{suffix(source)} v0, v100"],
    )
    got = program.run(fast, [a.reshape(1, -1)])[0][0]
    x = decode(source, a)
    if target == "i1":
        want = x != 0
    elif target in FLOATS:
        want = encode(
            target, x.astype(np.float32) if target in ("f16", "bf16") else x.astype(NUMPY[target])
        )
    else:
        want = x.astype(np.int64).astype(NUMPY[target])
    same(target, got, want)


def test_float_to_integer_out_of_range(fast):
    a = np.array([[np.nan, 1e30, -1e30, 3e9, -1.5]], np.float32)
    program = MapProgram(
        1,
        5,
        [("f32", "full")],
        [("i64", "full"), ("i32", "full"), ("u8", "full")],
        ["VCVT.I64.F32 v0, v100", "VCVT.I32.F32 v0, v101", "VCVT.U8.F32 v0, v102"],
    )
    i64, i32, u8 = program.run(fast, [a])
    least = -(2**63)
    np.testing.assert_array_equal(i64[0], [least, least, least, 3000000000, -1])
    np.testing.assert_array_equal(i32[0], [-(2**31)] * 4 + [-1])
    np.testing.assert_array_equal(u8[0], [0, 0, 0, 0, 255])


def test_bit_casts(fast):
    a = np.array([[1.0, -0.0, np.nan, 1e-45]], np.float32)
    h = np.array([[1.0, -2.0, 65504.0, 6e-8]], np.float16)
    program = MapProgram(
        1,
        4,
        [("f32", "full"), ("f16", "full")],
        [("i32", "full"), ("i16", "full"), ("bf16", "full"), ("f32", "full")],
        [
            "VBITC.I32.F32 v0, v100",
            "VBITC.I16.F16 v1, v101",
            "VBITC.BF16.F16 v1, v102",
            "VBITC.I32.F32 v0, v5",
            "VBITC.F32.I32 v5, v103",
        ],
    )
    bits, halves, brain, back = program.run(fast, [a, h])
    np.testing.assert_array_equal(bits.view(np.uint32), a.view(np.uint32))
    np.testing.assert_array_equal(halves.view(np.uint16), h.view(np.uint16))
    np.testing.assert_array_equal(brain, h.view(np.uint16))
    np.testing.assert_array_equal(back.view(np.uint32), a.view(np.uint32))


def test_copysign(fast):
    a, b = sample("f32", 20), sample("f32", 21)
    got = run_binary(fast, "VCOPYSIGN", "f32", "f32", a, b)
    np.testing.assert_array_equal(got.view(np.uint32), np.copysign(a, b).view(np.uint32))
