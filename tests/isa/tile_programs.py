"""Programs of one instruction between tiles, and the units that count its expansion, for the tests
of this folder."""

from __future__ import annotations

import numpy as np

from ftm_backend.target import op_costs, presets
from ftm_backend.target.macros.vector_unit import VectorUnit

M7032 = presets.load("m7032")
FAMILY = [presets.load(name) for name in ("m7032", "mt3000", "m7002")]
"""The machines whose costs are those of expansions; the host's are measured on the emulator."""
TOKENS = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32,
    "i8": np.int8, "u8": np.uint8,
}  # fmt: skip
RNG = np.random.default_rng(3)


def unit(dtype: str, dry: bool = False) -> VectorUnit:
    return VectorUnit(M7032, dtype, op_costs.cost, dry)


def numbers(token: str, *shape: int, edges: bool = False) -> np.ndarray:
    dtype = np.dtype(TOKENS[token])
    if dtype.kind != "f":
        info = np.iinfo(dtype)
        return RNG.integers(max(info.min, -(2**62)), min(info.max, 2**62), shape).astype(dtype)
    values = RNG.standard_normal(shape).astype(dtype)
    if edges:
        flat = values.reshape(-1)
        for k, edge in enumerate((np.inf, -np.inf, np.nan, -0.0, 0.0)):
            if flat.size > 3 * k + 2:
                flat[3 * k + 2] = edge
    return values


def tile(name: str, token: str, rows: int, columns: int, at: int) -> str:
    return f"  @tile {name}, am, {token}, {max(rows, 1)}x{max(columns, 1)}, 1, {at}\n"


def load(name: str, buffer: str, rows: int, columns: int) -> str:
    return f"    DLD {buffer}[0], {rows}@{columns} | {columns}@1, {name}\n    DWAIT {name}\n"


def store(name: str, buffer: str, rows: int, columns: int) -> str:
    return f"    DST {name}, {buffer}[0], {rows}@{columns} | {columns}@1\n"


def programs(header: str, body: str) -> str:
    return f"@program t, host\n{header}@func main\n{body}@ret\n"
