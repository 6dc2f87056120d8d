"""Macros inside maps and what they stand for: both run on the machine, on the same numbers, and
agree."""

from __future__ import annotations

import numpy as np
import pytest

from ftm_backend.machine import Machine
from ftm_backend.target import op_costs
from ftm_backend.target.element_types import TYPES
from ftm_backend.target.instruction import SAME, InstructionDef
from ftm_backend.target.instruction_table import BY_NAME, INSTRUCTIONS
from ftm_backend.target.macros import trigonometry
from ftm_backend.target.macros.macro_builder import SEEDS, runnable
from machine.machine_programs import MapProgram, from_bf16, run_text, to_bf16

NUMPY = {t.suffix: (t.token, t.array) for t in TYPES}
MACHINE = Machine(cores=1)
MACROS = [row for row in INSTRUCTIONS if row.macro and row.macro.types]
CASES = [(row, word) for row in MACROS for word in (row.macro.types if row.types else ("",))]

EXACT = {
    "VMIN", "VMAX", "VMINN", "VMAXN", "VCOPYSIGN", "VFLOOR", "VCEIL", "VROUND", "VTRUNC", "VPHILOX",
    "VREM",
}  # fmt: skip
"""Macros whose expansion gives the same bits; of integers all do."""
ULPS = {"VDIV": 1.0, "VSQRT": 0.0, "VRCP": 1.0, "VPOW": 12.0, "VERFC": 6.0}
"""Largest difference in units in the last place, where it is not ``MOST``."""
MOST = 4.0
DOMAIN = {
    "VSIN": 1e4, "VCOS": 1e4, "VTAN": 1e4, "VASIN": 1.0, "VACOS": 1.0, "VATANH": 1.0, "VEXP": 90.0,
    "VEXP2": 150.0, "VEXPM1": 90.0, "VSINH": 90.0, "VCOSH": 90.0, "VTANH": 20.0, "VERF": 6.0,
    "VERFC": 11.0, "VPOW": 30.0,
}  # fmt: skip
"""Magnitude up to which most samples lie; of the others up to 10,000."""


def floats(count: int, dtype: np.dtype, name: str, rng: np.random.Generator) -> np.ndarray:
    """Numbers of all sizes and signs, many within the domain, with the edges first."""
    info = np.finfo(dtype if dtype.kind == "f" else np.float32)
    edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        np.inf,
        -np.inf,
        np.nan,
        0.5,
        -0.5,
        2.0,
        -2.0,
        3.0,
        1.5,
        2.5,
        -2.5,
        info.max,
        info.min,
        info.tiny,
        -info.tiny,
        info.smallest_subnormal,
        7 * info.smallest_subnormal,
        info.eps,
        1 + info.eps,
        1 - info.epsneg,
        4.0,
        8.0,
        27.0,
        0.84375,
    ]
    reach = DOMAIN.get(name, 1e4)
    uniform = rng.uniform(-reach, reach, count)
    small = rng.standard_normal(count) * 10.0 ** rng.uniform(-8, 0, count)
    low, high = (-300, 300) if info.bits == 64 else (-44, 38) if info.bits == 32 else (-7, 4)
    wide = rng.choice([-1.0, 1.0], count) * 10.0 ** rng.uniform(low, high, count)
    if name in ("VSIN", "VCOS", "VTAN"):
        wide = wide[np.abs(wide) <= trigonometry.LARGEST["F32"]]
        edges = [x for x in edges if not trigonometry.LARGEST["F32"] < abs(x) < np.inf]
    if name in ("VASIN", "VACOS", "VATANH"):
        small = small[np.abs(small) <= 1.0]
    mixed = np.concatenate([uniform, small, 1.0 + small / 100, wide])
    return np.concatenate([np.array(edges), rng.permutation(mixed)])[:count].astype(np.float64)


def integers(count: int, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Integers of all sizes, with the edges first."""
    info = np.iinfo(dtype)
    edges = [
        0,
        1,
        2,
        3,
        7,
        info.max,
        info.max - 1,
        info.min,
        info.min + 1,
        *([-1, -2, -3, -7] if info.min else []),
    ]
    sizes = rng.integers(1, info.bits, count)
    values = [
        int(rng.integers(0, 2**62)) >> (62 - int(size)) if size < 63 else int(info.max)
        for size in sizes
    ]
    signed = [v if info.min == 0 or i % 2 else -v for i, v in enumerate(values)]
    return np.array([*edges, *signed][:count], dtype)


def operands(row: InstructionDef, word: str, count: int) -> list[np.ndarray]:
    """One array per operand; two operands are paired with each other, edge cases with all."""
    rng = np.random.default_rng(7)
    arrays = []
    for number, operand in enumerate(row.operands[:-1]):
        token, dtype = NUMPY[word if operand.kind == SAME else operand.kind]
        if token in ("f64", "f32", "f16", "bf16"):
            values = floats(
                count, np.dtype(np.float32) if token == "bf16" else dtype, row.name, rng
            )
            with np.errstate(over="ignore"):
                array = (
                    to_bf16(values.astype(np.float32)) if token == "bf16" else values.astype(dtype)
                )
        else:
            array = integers(count, dtype, rng)
        if number:
            edges, first = 28 if token in ("f64", "f32", "f16", "bf16") else 12, arrays[0]
            at = np.arange(edges * edges)
            array[: edges * edges] = array[at // edges].copy()
            first[: edges * edges] = first[at % edges].copy()
        arrays.append(array)
    return arrays


def run(row: InstructionDef, word: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """What the macro and what its expansion give."""
    inputs = [
        (NUMPY[word if operand.kind == SAME else operand.kind][0], "full")
        for operand in row.operands[:-1]
    ]
    result = NUMPY[word or row.result][0]
    names = ", ".join(f"v{n}" for n in range(len(inputs)))
    found = []
    for lines, last in (
        ([f"{row.name}{'.' + word if word else ''} {names}, v100"], 100),
        runnable(op_costs.expansion(row, word, whole=True)),
    ):
        program = MapProgram(3, arrays[0].size // 3, inputs, [(result, "full")], lines)
        text = program.text.replace("Y0:v100", f"Y0:v{last}")
        found.append(run_text(MACHINE, text, [a.reshape(3, -1) for a in arrays])[0].ravel())
    return found


def distance(got: np.ndarray, want: np.ndarray, word: str) -> np.ndarray:
    """Units in the last place between finite numbers."""
    if word == "BF16":
        got, want = from_bf16(got), from_bf16(want)
        unit = np.maximum(np.spacing(np.abs(want)) * 2.0**16, 2.0**-133)
    else:
        unit = np.spacing(np.abs(want)).astype(np.float64)
    return np.abs(got.astype(np.float64) - want.astype(np.float64)) / unit


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("row", "word"), CASES, ids=[f"{row.name}.{word}" for row, word in CASES])
def test_expansion_agrees_with_its_macro(row, word):
    arrays = operands(row, word, 3 * 1201)
    want, got = run(row, word, arrays)
    if word in ("F64", "F32", "F16", "BF16"):
        values = [from_bf16(a) if word == "BF16" else a for a in (want, got)]
        np.testing.assert_array_equal(np.isnan(values[1]), np.isnan(values[0]))
        number = ~np.isnan(values[0])
        zero = number & (values[0] == 0)
        np.testing.assert_array_equal(np.signbit(values[1][zero]), np.signbit(values[0][zero]))
        finite = number & np.isfinite(values[0])
        np.testing.assert_array_equal(values[1][number & ~finite], values[0][number & ~finite])
        allowed = 0.0 if row.name in EXACT else ULPS.get(row.name, MOST)
        off = distance(got[finite], want[finite], word)
        # What is subnormal was rounded twice, and the remainder of a division is subnormal earlier.
        info = np.finfo(np.float32 if word == "BF16" else want.dtype)
        low = np.abs(values[0][finite]) < info.tiny * (4 / info.eps if row.name == "VDIV" else 2)
        worst = np.argmax(np.where(low, 0, off))
        assert np.all(off <= np.where(low, max(allowed, 2.0), allowed)), (
            f"{np.max(np.where(low, 0, off))} units at {[a[finite][worst] for a in arrays]}: {got[finite][worst]}, not {want[finite][worst]}"
        )
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("row", "word"), CASES, ids=[f"{row.name}.{word}" for row, word in CASES])
def test_an_expansion_consists_of_what_the_machine_knows(row, word):
    for operation in op_costs.expansion(row, word).operations:
        assert operation.name in SEEDS or not op_costs.is_macro(
            BY_NAME[operation.name], operation.type
        ), operation
    cost = op_costs.cost(row.name, word)
    assert cost.latency >= 1 and {unit for unit, _ in cost.slots} <= {"VMAC", "VMAC1", "VIEU"}
