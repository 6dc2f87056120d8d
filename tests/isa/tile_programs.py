"""Programs of one instruction between tiles, and the units that count its expansion, for the tests
of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import numpy as np

from ftm_backend.machine import Machine
from ftm_backend.target import op_costs, presets
from ftm_backend.target.macros.macro_simulator import MacroSimulator
from machine.machine_programs import run_text

M7032 = presets.load("m7032")
FAMILY = [presets.load(name) for name in ("m7032", "mt3000", "m7002")]
"""The machines whose costs are those of expansions; the host's are measured on the emulator."""
TOKENS = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32,
    "i8": np.int8, "u8": np.uint8,
}  # fmt: skip
MACHINE = Machine(cores=1)
RNG = np.random.default_rng(3)


def unit(dtype: str, dry: bool = False) -> MacroSimulator:
    return MacroSimulator(M7032, dtype, op_costs.cost, dry)


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


def compute(
    line: str,
    inputs: Mapping[str, tuple[str, np.ndarray]],
    outputs: Mapping[str, tuple[str, tuple[int, int]]],
) -> list[np.ndarray]:
    """What a program of one instruction leaves in its output tiles.

    Args:
        line: The instruction.
        inputs: Type and elements of the tiles that are loaded before it, by name.
        outputs: Type and shape of the tiles that are stored after it; they may be inputs.
    """
    tiles = {name: (token, x.shape) for name, (token, x) in inputs.items()} | dict(outputs)
    sizes = [
        -(-max(rows, 1) * max(columns, 1) * np.dtype(TOKENS[token]).itemsize // 64) * 64
        for token, (rows, columns) in tiles.values()
    ]
    places = [0, *accumulate(sizes)]
    header = [
        f"@in b{k}, {token}, {x.shape[0]}x{x.shape[1]}\n"
        for k, (token, x) in enumerate(inputs.values())
    ] + [
        f"@out o{k}, {token}, {rows}x{columns}\n"
        for k, (token, (rows, columns)) in enumerate(outputs.values())
    ]
    body = [tile(name, tiles[name][0], *tiles[name][1], at) for name, at in zip(tiles, places)]
    body += [load(name, f"b{k}", *x.shape) for k, (name, (_, x)) in enumerate(inputs.items())]
    body.append(f"    {line}\n")
    body += [store(name, f"o{k}", *shape) for k, (name, (_, shape)) in enumerate(outputs.items())]
    return run_text(
        MACHINE, programs("".join(header), "".join(body)), [x for _, x in inputs.values()]
    )
