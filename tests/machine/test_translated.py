"""Map bodies as machine code against the strip interpreter: equal bits, for every operation, type
and length, and for random bodies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ftm_backend.machine import Machine
from ftm_backend.target.instruction_table import BY_NAME
from machine.machine_programs import NUMPY, MapProgram, suffix, to_bf16

FLOATS = ["f64", "f32", "f16", "bf16"]
WIDE = ["i64", "i32"]
INTEGERS = [*WIDE, "i16", "i8", "u8"]
TYPES = [*FLOATS, *INTEGERS, "i1"]
EDGES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 3.0, 1e-40, -1e-40, 88.8, -103.9]
# One element, tails of every length up to two vectors, and more than a strip.
LENGTHS = [*range(1, 35), 63, 64, 65, 127, 129, 1023, 1024, 1025, 2100]

Both = Callable[[MapProgram, list[np.ndarray]], None]


@pytest.fixture
def both(fast: Machine, monkeypatch: pytest.MonkeyPatch) -> Both:
    """Runs a program with and without translation, and compares the outputs."""

    def run(program: MapProgram, arrays: list[np.ndarray]) -> None:
        scalars = (1.25,) if "@scalar" in program.text else ()
        results = []
        for setting in ("0", "1"):
            monkeypatch.setenv("FTM_JIT", setting)
            results.append(program.run(fast, arrays, scalars))
        for want, got in zip(*results, strict=True):
            same_bits(want, got, program.text)

    return run


def same_bits(want: np.ndarray, got: np.ndarray, text: str) -> None:
    """Equal bits, but any NaN equals any other."""
    bits = np.dtype(f"u{want.itemsize}")
    differ = want.view(bits) != got.view(bits)
    if want.dtype.kind == "f":
        differ &= ~(np.isnan(want) & np.isnan(got))
    elif want.dtype == np.uint16:  # bf16
        differ &= ~(((want & 0x7FFF) > 0x7F80) & ((got & 0x7FFF) > 0x7F80))
    assert not differ.any(), f"{text}\n{want[differ][:5]} became {got[differ][:5]}"


def sample(token: str, shape: tuple[int, int], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    size = shape[0] * shape[1]
    if token == "i1":
        return rng.integers(0, 2, shape).astype(bool)
    if token in INTEGERS:
        info = np.iinfo(NUMPY[token])
        small = rng.integers(0 if info.min == 0 else -70, 70, size)
        edges = rng.choice([info.min, info.max, 0, 1], size)
        values = np.where(rng.random(size) < 0.2, edges, small).astype(NUMPY[token])
    else:
        random = rng.standard_normal(size) * 10.0 ** rng.integers(-3, 3, size)
        values = np.where(rng.random(size) < 0.25, rng.choice(EDGES, size), random)
        with np.errstate(over="ignore"):
            values = (
                to_bf16(values.astype(np.float32))
                if token == "bf16"
                else values.astype(NUMPY[token])
            )
    return values.reshape(shape)


COMMON = ["VADD", "VSUB", "VMUL", "VMIN", "VMAX", "VMINN", "VMAXN"]
BINARY = [*COMMON, "VDIV", "VREM", "VCOPYSIGN", "VAND", "VOR", "VXOR", "VSHL", "VSHR", "VSHRU"]
COMPARES = ["VCMPEQ", "VCMPNE", "VCMPLT", "VCMPLE", "VCMPGT", "VCMPGE"]
UNARY = ["VMOV", "VNEG", "VABS"]
FUNCTIONS = [
    "VNOT", "VEXP", "VEXP2", "VEXPM1", "VLOG", "VLOG1P", "VSQRT", "VRSQRT", "VRCP", "VSIN",
    "VTANH", "VERF", "VFLOOR", "VCEIL", "VROUND", "VTRUNC",
]  # fmt: skip


def of_type(names: list[str], token: str) -> list[str]:
    """The operations that exist on elements of a type."""
    return [name for name in names if suffix(token) in BY_NAME[name].types]


@pytest.mark.parametrize("token", TYPES)
def test_binary(both: Both, token: str) -> None:
    """All results of one type in one body, for tails of some lengths."""
    names = of_type(BINARY, token)
    compares = of_type(COMPARES, token)
    s = suffix(token)
    for length in (1, 17, 64, 131, 1100):
        body = [f"{name}.{s} v0, v1, v{100 + k}" for k, name in enumerate(names)]
        body += [f"{name}.{s} v0, v1, v{100 + k}" for k, name in enumerate(compares, len(names))]
        outputs = [(token, "full")] * len(names) + [("i1", "full")] * len(compares)
        program = MapProgram(1, length, [(token, "full")] * 2, outputs, body)
        both(program, [sample(token, (1, length), 1), sample(token, (1, length), 2)])


@pytest.mark.parametrize("token", [*FLOATS, *INTEGERS])
def test_unary_and_fma(both: Both, token: str) -> None:
    s = suffix(token)
    names = of_type([*UNARY, *FUNCTIONS], token)
    for length in (1, 16, 33, 500):
        body = [f"{name}.{s} v0, v{100 + k}" for k, name in enumerate(names)]
        last = 100 + len(names)
        body += [
            f"VFMA.{s} v0, v1, v2, v{last}",
            f"VFMA.{s} v0, v1, v1, v{last + 1}",
            f"VCMPLT.{s} v0, v1, v90",
            f"VSEL.{s} v90, v1, v2, v{last + 2}",
        ]
        program = MapProgram(
            1, length, [(token, "full")] * 3, [(token, "full")] * (len(names) + 3), body
        )
        both(program, [sample(token, (1, length), k) for k in range(3)])


@pytest.mark.parametrize("source", TYPES)
def test_convert(both: Both, source: str) -> None:
    """To every type, of values that fit 8 bits: others are the host's affair."""
    values = sample(source, (1, 150), 3)
    if source in FLOATS:
        exact = np.arange(150).reshape(1, -1) % 100 * 0.5
        values = (
            to_bf16(exact.astype(np.float32)) if source == "bf16" else exact.astype(NUMPY[source])
        )
    others = [t for t in TYPES if t != source]
    body = [f"VCVT.{suffix(t)}.{suffix(source)} v0, v{100 + k}" for k, t in enumerate(others)]
    both(MapProgram(1, 150, [(source, "full")], [(t, "full") for t in others], body), [values])


def test_every_length(both: Both) -> None:
    """Tails of float32, of halves, of 8-byte elements, and of bytes."""
    for length in LENGTHS:
        body = [
            "VADD.F32 v0, v1, v100",
            "VMUL.F16 v2, v2, v101",
            "VCMPLT.F32 v0, 0.0, v102",
        ]
        arrays = [sample(t, (1, length), k) for k, t in enumerate(["f32", "f32", "f16"])]
        inputs = [("f32", "full"), ("f32", "full"), ("f16", "full")]
        outputs = [("f32", "full"), ("f16", "full"), ("i1", "full")]
        both(MapProgram(1, length, inputs, outputs, body), arrays)
        body = ["VADD.I64 v0, 3, v100", "VXOR.U8 v1, v2, v101"]
        arrays = [sample(t, (1, length), k) for k, t in enumerate(["i64", "u8", "u8"])]
        inputs = [("i64", "full"), ("u8", "full"), ("u8", "full")]
        both(MapProgram(1, length, inputs, [("i64", "full"), ("u8", "full")], body), arrays)


def random_body(rng: np.random.Generator, inputs: int) -> tuple[list[str], str]:
    """Up to 60 operations: more live values than registers, masks, and functions that stay calls.

    Returns the body and its last value.
    """
    floats, masks, body = [f"v{k}" for k in range(inputs)], [], []
    window = int(rng.integers(2, 60))
    constants = ["0.5", "-1.25", "s0"]
    for n in range(int(rng.integers(1, 60))):
        a, b, c = (str(x) for x in rng.choice(floats[-window:], 3))
        if rng.random() < 0.3:
            b = str(rng.choice(constants))
        to, kind = f"v{200 + n}", rng.integers(8)
        if kind < 3:
            body.append(f"{rng.choice([*COMMON, 'VDIV', 'VCOPYSIGN'])}.F32 {a}, {b}, {to}")
        elif kind == 3:
            body.append(f"VFMA.F32 {a}, {b}, {c}, {to}")
        elif kind == 4:
            name = rng.choice([*UNARY, "VEXP", "VTANH", "VERF", "VLOG", "VSQRT", "VFLOOR", "VSIN"])
            body.append(f"{name}.F32 {a}, {to}")
        elif kind == 5 or not masks:
            body.append(f"{rng.choice(COMPARES)}.F32 {a}, {c}, {to}")
            masks.append(to)
            continue
        elif kind == 6:
            body.append(f"VSEL.F32 {rng.choice(masks)}, {a}, {b}, {to}")
        else:
            body.append(f"{rng.choice(['VAND', 'VOR', 'VXOR'])}.B1 {masks[-1]}, {masks[0]}, {to}")
            masks.append(to)
            continue
        floats.append(to)
    return body, floats[-1]


SHAPES = [(1, 1), (1, 40), (3, 17), (40, 5), (7, 64), (2, 1500), (64, 16)]


@pytest.mark.parametrize("seed", range(40))
def test_random_bodies(both: Both, seed: int) -> None:
    """Broadcast inputs, rows that are not adjacent, and reductions of every scope."""
    rng = np.random.default_rng(seed)
    rows, columns = SHAPES[seed % len(SHAPES)]
    accesses = ["full", *rng.choice(["full", "row", "col", "one"], 2)]
    body, last = random_body(rng, len(accesses))
    body += [f"VMOV.F32 {last}, v{100 + k}" for k in range(5)]
    outputs = [("f32", what) for what in ("full", "rsum", "csum", "amax", "rmin")]
    program = MapProgram(
        rows,
        columns,
        [("f32", str(access)) for access in accesses],
        outputs,
        body,
        pad=int(rng.integers(0, 2)) * 3,
        scalars=("f64",),
    )
    extents = {"full": (rows, columns), "row": (1, columns), "col": (rows, 1), "one": (1, 1)}
    both(program, [sample("f32", extents[str(a)], seed + k) for k, a in enumerate(accesses)])


REDUCED = [
    ["rsum"],
    ["rmax", "rsum"],
    ["full", "rmin"],
    ["asum", "amax", "full"],
    ["rprod", "rsum"],
    ["rsum", "rmin", "rmax", "amin"],
]


@pytest.mark.parametrize("token", ["f32", "f16", "bf16", "f64", "i32"])
@pytest.mark.parametrize("outputs", REDUCED)
def test_reductions(both: Both, token: str, outputs: list[str]) -> None:
    """Rows that are shorter than a vector, with tails, and longer than a strip."""
    rng = np.random.default_rng(len(outputs))
    for columns in (1, 15, 16, 17, 48, 64, 100, 129, 1024, 1025, 3000):
        rows = int(rng.choice([1, 3, 40 if columns < 1000 else 5]))
        access = str(rng.choice(["col", "row", "full"]))
        body = [f"VSUB.{suffix(token)} v0, v1, v{100 + k}" for k in range(len(outputs))]
        program = MapProgram(
            rows,
            columns,
            [(token, "full"), (token, access)],
            [(token, what) for what in outputs],
            body,
            pad=int(rng.integers(0, 2)) * 3,
        )
        other = {"col": (rows, 1), "row": (1, columns), "full": (rows, columns)}[access]
        both(program, [sample(token, (rows, columns), columns), sample(token, other, 1)])


def test_reduction_of_an_input(both: Both) -> None:
    """Without operations: negative zeros alone, NaN last, and no element that is greater."""
    for values in ([-0.0] * 40, [1.0] * 79 + [np.nan], [-np.inf] * 17, [0.0, -0.0] * 65):
        array = np.array([values], np.float32)
        outputs = [("f32", what) for what in ("rsum", "rmax", "rmin")]
        body = [f"VMOV.F32 v0, v{100 + k}" for k in range(3)]
        both(MapProgram(1, len(values), [("f32", "full")], outputs, body), [array])
